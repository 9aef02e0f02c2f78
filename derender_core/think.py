"""``ThinkMachine``: reasoning between two markers, such as ``<think>…</think>``, in front of the answer.

    output := [opener] reasoning closer answer | answer
    answer := text | answer_opener text [answer_closer text]

Where the output begins is told by the prompt (``opens_reasoning``). Rules that families share: the first closer closes;
an opener inside reasoning is literal; an explicit closer wins over a tool call's opener inside open reasoning, and
without a closer the opener ended the reasoning; a closer inside a JSON string of a call is data; what a cut leaves open
is reasoning; blank reasoning is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from derender_core.events import Reasoning, Text
from derender_core.hookspecs import State
from derender_core.inputs import ParseContext, Prompt
from derender_core.json_scan import BAD, DONE, START, check_scan_state, in_string, scan_json
from derender_core.machine import NEED_DATA, Machine, NeedData

__all__ = ["ThinkMachine"]

BLANK = " \t\r\n"
BRACES = ("{", "[")


@dataclass
class ThinkMachine(Machine):
    """Base of reasoning parsers with an opener and a closer. A subclass sets what its family does differently.

    Args:
        ahead: how much of the buffer was looked at without consuming it.
        tail: blank text of the reasoning that is framing unless more reasoning follows.
        scan: the JSON scanner's state.
        begin: where the JSON that is being read behind a tool call's opener begins.
        spoke: whether reasoning was sent.
        quoted: whether the answer holds a literal opener, which makes later closers literal too.
        wrapped: whether the answer stands between tags of its own, and its end is to come.
        called: whether the JSON that is being read stands right behind a tool call's opener.
    """

    ahead: int = 0
    tail: str = ""
    scan: str = ""
    begin: int = 0
    spoke: bool = False
    quoted: bool = False
    wrapped: bool = False
    called: bool = False

    opener: ClassVar[str] = "<think>"
    closer: ClassVar[str] = "</think>"
    spellings: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Other pairs of an opener and a closer that mean the same."""
    phrases: ClassVar[tuple[str, ...]] = ()
    """Those of them that are words of the language: in the answer they are text."""
    answer_opener: ClassVar[str] = ""
    """A tag in front of the answer, if the family writes one. It vanishes with the newlines next to it."""
    answer_closer: ClassVar[str] = ""
    """The tag behind such an answer. Elsewhere it is text."""
    strip_newlines: ClassVar[bool] = True
    """Whether newlines next to the markers are framing, as where the chat template strips them from history."""
    strip_blank: ClassVar[bool] = False
    """Whether all white space next to the markers is."""
    strip_last_newline: ClassVar[bool] = False
    """Whether one newline in front of the closer is."""
    reopens: ClassVar[bool] = False
    """Whether an opener inside the answer begins reasoning again; otherwise it is literal there."""
    plain_when_closed: ClassVar[bool] = False
    """Whether an output that does not begin inside reasoning is not looked at, markers included."""
    when_prompt_is_silent: ClassVar[bool | None] = None
    """Whether reasoning is open when the prompt's current turn holds no marker. None: the output tells."""
    when_prompt_is_unknown: ClassVar[bool | None] = None
    """The same when there is no prompt and ``template_kwargs`` do not decide."""
    switches: ClassVar[tuple[str, ...]] = ()
    """Boolean ``template_kwargs`` that turn reasoning on or off, the family's own spelling first."""
    noise: ClassVar[tuple[str, ...]] = ()
    """Markers that are never text, such as the end of a sentence: they vanish."""
    ends_message: ClassVar[tuple[str, ...]] = ()
    """Markers behind which the model runs on into another turn: the rest of the output is ignored."""

    openers: ClassVar[tuple[str, ...]] = ("<think>",)
    closers: ClassVar[tuple[str, ...]] = ("</think>",)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.openers = (cls.opener, *(opener for opener, _ in cls.spellings))
        cls.closers = (cls.closer, *(closer for _, closer in cls.spellings))

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """The last marker of the prompt's current turn, else the request's switches, else the family's default."""
        if prompt is not None:
            last = prompt.last_of(*cls.openers, *cls.closers)
            return cls.when_prompt_is_silent if last is None else last in cls.openers
        for switch in cls.switches:
            value = context.template_kwargs.get(switch)
            if value is not None:
                return cls.switched(bool(value))
        return cls.when_prompt_is_unknown

    @classmethod
    def switched(cls, on: bool) -> bool | None:
        """What a switch says. Switching on only restores what the family does by itself."""
        return cls.when_prompt_is_unknown if on else False

    @property
    def _framing(self) -> str:
        """The characters that are framing next to a marker."""
        return BLANK if self.strip_blank else "\n" if self.strip_newlines else ""

    # -- before the first word ---------------------------------------------------------------------------------------

    def read_start(self) -> None:
        """Where the output begins, as the prompt told."""
        if self.context.reasoning_open:
            self.phase = "lead"
        else:
            self.phase = "plain" if self.plain_when_closed else "undecided"

    def _first(self, markers: tuple[str, ...]) -> bool | None:
        """Whether the first text that is not blank is one of ``markers``. Consumes it and the blank before it."""
        blank = self._blank()
        if blank == self.waiting:
            return False if self.final else None
        undecided = False
        for marker in markers:
            starts = self.starts(marker, blank)
            if starts and undecided:
                return None
            if starts:
                self._drop(blank + len(marker))
                self.ahead = 0
                return True
            undecided = undecided or starts is None
        return None if undecided else False

    def _blank(self) -> int:
        """Length of the blank run at the cursor; remembers how far it looked."""
        at, buffer, size = self._at + self.ahead, self.buffer, len(self.buffer)
        while at < size and buffer[at] in BLANK:
            at += 1
        self.ahead = at - self._at
        return self.ahead

    def read_lead(self) -> NeedData | None:
        """Open reasoning: an opener that the model writes again is swallowed."""
        starts = self._first(self.openers)
        if starts is None:
            return NEED_DATA
        self.phase, self.ahead = "reasoning", 0
        return None

    def read_undecided(self) -> NeedData | None:
        """The model opens reasoning itself, or does not reason."""
        starts = self._first(self.openers)
        if starts is None:
            return NEED_DATA
        self.phase, self.ahead = ("reasoning" if starts else self._answer_begins()), 0
        return None

    # -- reasoning ---------------------------------------------------------------------------------------------------

    def read_reasoning(self) -> NeedData | None:
        """Reasoning until its closer, or until a tool call's opener, which may end it."""
        openers = self.context.tool_call_openers
        count, marker = self.find((*self.closers, *openers, *self.noise, *self.ends_message))
        self._reason(count)
        if marker is None:
            if self.final:
                self._end_reasoning()
            return NEED_DATA
        if marker in self.closers:
            self._close(marker)
        elif marker in openers:
            self.ahead, self.scan, self.phase = len(marker), "", "held"
        elif marker in self.noise:
            self._drop(len(marker))
        else:
            self._end_reasoning()
            self.phase = "done"
        return None

    def _reason(self, count: int) -> None:
        """Consume ``count`` characters of reasoning; what may turn out to be blank or framing waits in ``tail``."""
        if not count:
            return
        self.spans.append((True, count))
        text = self.tail + self.take(count)
        if not self.spoke and not text.strip(BLANK):
            self.tail = text
            return
        framing = self._framing
        text = text if self.spoke or not framing else text.lstrip(framing)
        body = text.rstrip(framing) if framing else text.removesuffix("\n") if self.strip_last_newline else text
        self.tail = text[len(body) :]
        if body:
            self.emit(Reasoning(body))
            self.spoke = True

    def _end_reasoning(self) -> None:
        self.ahead, self.begin, self.tail, self.scan, self.spoke = 0, 0, "", "", False

    def _close(self, closer: str) -> None:
        self._end_reasoning()
        self._drop(len(closer))
        self.phase = "after" if self._framing else self._answer_begins()

    def read_held(self) -> NeedData | None:
        """Behind a tool call's opener inside open reasoning: a closer makes all of it reasoning, the end a call."""
        if self.scan:
            at, self.scan = scan_json(self.buffer, self._at + self.ahead, self.scan)
            self.ahead = at - self._at
            if self.scan not in (DONE, BAD):
                return self._held_to_the_end() if self.final else NEED_DATA
            broken, self.scan = self.scan == BAD, ""
            if broken and self._close_within(self.ahead):
                return None
        self.ahead, marker = self.find((*self.closers, *self.openers, *self.ends_message, *BRACES), self.ahead)
        if marker is None:
            return self._held_to_the_end() if self.final else NEED_DATA
        if marker in BRACES:
            self.scan, self.begin = START, self.ahead
        elif marker in self.closers:
            self._reason(self.ahead)
            self._close(marker)
        else:
            self._release()
        return None

    def _close_within(self, end: int) -> bool:
        """Close at a closer that stands in a string of what turned out to be no JSON, up to ``end``."""
        begin = self._at + self.begin
        places = ((self.buffer.find(closer, begin, self._at + end), closer) for closer in self.closers)
        found = [(at, closer) for at, closer in places if at >= 0]
        if not found:
            return False
        at, closer = min(found)
        self._reason(at - self._at)
        self._close(closer)
        return True

    def _held_to_the_end(self) -> NeedData | None:
        """No closer came. One inside a string that never ended closes after all, unless the string was cut."""
        in_json_string = self.scan != "" and in_string(self.scan) and self.finish_reason != "length"
        if not (in_json_string and self._close_within(self.waiting)):
            self._release()
        return None

    def _release(self) -> None:
        """The opener ended the reasoning: what was held is answer."""
        self._end_reasoning()
        self.phase = self._answer_begins()

    # -- the answer --------------------------------------------------------------------------------------------------

    def read_after(self) -> NeedData | None:
        """Newlines behind a closer are framing."""
        return self._drop_framing(self._framing, self._answer_begins())

    def _drop_framing(self, framing: str, after: str) -> NeedData | None:
        count = 0
        while (char := self.peek(1, count)) and char in framing:
            count += 1
        self._drop(count)
        if not self.waiting:
            return NEED_DATA
        self.phase = after
        return None

    def _answer_begins(self) -> str:
        """The phase in which the answer begins."""
        return "wrapping" if self.answer_opener else "content"

    def read_wrapping(self) -> NeedData | None:
        """The answer may stand between tags of its own."""
        starts = self._first((self.answer_opener,))
        if starts is None:
            return NEED_DATA
        self.wrapped, self.phase, self.ahead = starts, "unwrapped" if starts else "content", 0
        return None

    def read_unwrapped(self) -> NeedData | None:
        """Newlines behind the tags of the answer are framing."""
        return self._drop_framing("\n", "content")

    def read_content(self) -> NeedData | None:
        """The answer. Stray markers are swallowed, quoted ones kept, and strings of JSON are not looked into."""
        tools = bool(self.context.tools)
        others = BRACES if tools else (*self.noise, *self.ends_message)  # with tools, those are the tool parser's
        if self.wrapped:
            others = (*others, self.answer_closer)
        openers = self.context.tool_call_openers if tools else ()
        tags = (*self.openers, *self.closers)
        if self.phrases:
            tags = tuple(tag for tag in tags if tag not in self.phrases)
        count, marker = self.find((*tags, *others, *openers))
        self._answer(count)
        if marker is None:
            return self._wait_for_answer()
        if marker in BRACES:
            self.scan, self.phase = START, "json"
        elif marker == self.answer_closer:
            self._drop(len(marker))
            self.wrapped, self.tail, self.phase = False, "", "unwrapped"
        elif marker in openers:
            self._answer(len(marker))
            self.phase = "called"
        elif marker in self.closers:
            if self.quoted:
                self._answer(len(marker))
            else:
                self._drop(len(marker))
        elif marker in self.openers:
            self._opener_in_answer(marker)
        elif marker in self.noise:
            self._drop(len(marker))
        else:
            self._flush()
            self.phase = "done"
        return None

    def _wait_for_answer(self) -> NeedData:
        if self.final:
            self._flush()
        return NEED_DATA

    def _opener_in_answer(self, opener: str) -> None:
        if self.reopens and not self.quoted:
            self._flush()
            self._drop(len(opener))
            self.phase = "reasoning"
        else:
            self.quoted = True
            self._answer(len(opener))

    def read_called(self) -> NeedData | None:
        """What a call holds that is not JSON may quote markers, which are data there: they are kept from here on."""
        blank = self._blank()
        if blank == self.waiting and not self.final:
            return NEED_DATA
        self._answer(blank)
        self.called = self.peek(1) in BRACES
        self.quoted = self.quoted or not self.called
        self.phase, self.ahead, self.scan = ("json", 0, START) if self.called else ("content", 0, "")
        return None

    def read_json(self) -> NeedData | None:
        """JSON in the answer of a request with tools: a marker inside its strings is data."""
        at, self.scan = scan_json(self.buffer, self._at, self.scan)
        self._answer(at - self._at)
        if self.scan not in (DONE, BAD):
            return self._wait_for_answer()
        self.quoted = self.quoted or (self.called and self.scan == BAD)
        self.phase, self.scan, self.called = "content", "", False
        return None

    def read_plain(self) -> NeedData:
        """Nothing here is reasoning."""
        self._answer(self.waiting)
        return NEED_DATA

    def read_done(self) -> NeedData:
        """The message is over."""
        self._drop(self.waiting)
        return NEED_DATA

    # -- consuming, with the spans by which reasoning tokens are counted ---------------------------------------------

    def _answer(self, count: int) -> None:
        if not count:
            return
        self.spans.append((False, count))
        if not self.wrapped:
            self.emit_text(count)
            return
        words = len(self.peek(count).rstrip("\n"))
        if words:
            self._flush()
            self.emit_text(words)
        self.tail += self.take(count - words)

    def _flush(self) -> None:
        """Newlines that might have been framing of the answer's end are text."""
        if self.tail:
            self.emit(Text(self.tail))
            self.tail = ""

    def _drop(self, count: int) -> None:
        if count:
            self.spans.append((False, count))
            self.skip(count)

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``Machine.check``, and that positions lie within the buffer and the scanner's state is one."""
        wrong = super().check(state)
        if wrong:
            return wrong
        size = len(state.get("buffer", ""))
        if max(state.get("ahead", 0), state.get("begin", 0)) > size:
            return "field 'ahead' or 'begin' points outside the buffer"
        scan = state.get("scan", "")
        if not check_scan_state(scan) if scan else state.get("phase") == "json":
            return "field 'scan' is no state of the scanner"
        if not cls.answer_opener and (state.get("wrapped") or state.get("phase") in ("wrapping", "unwrapped")):
            return "field 'wrapped': answers of this family have no tags of their own"
        return None
