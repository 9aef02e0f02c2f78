"""``ThinkMachine``: reasoning between two markers, such as ``<think>…</think>``, in front of the answer.

    output := [opener] reasoning closer answer | answer

Where the output begins is told by the prompt (``opens_reasoning``). Rules that families share: the first closer closes;
an opener inside reasoning is literal; an explicit closer wins over a tool call's opener inside open reasoning, and
without a closer the opener ended the reasoning; a closer inside a JSON string of a call is data; what a cut leaves open
is reasoning; blank reasoning is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.events import Reasoning
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
    """

    ahead: int = 0
    tail: str = ""
    scan: str = ""
    begin: int = 0
    spoke: bool = False
    quoted: bool = False

    opener: ClassVar[str] = "<think>"
    closer: ClassVar[str] = "</think>"
    strip_newlines: ClassVar[bool] = True
    """Whether newlines next to the markers are framing, as where the chat template strips them from history."""
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

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """The last marker of the prompt's current turn, else the request's switches, else the family's default."""
        if prompt is not None:
            last = prompt.last_of(cls.opener, cls.closer)
            return cls.when_prompt_is_silent if last is None else last == cls.opener
        for switch in cls.switches:
            value = context.template_kwargs.get(switch)
            if value is not None:
                return cls.switched(bool(value))
        return cls.when_prompt_is_unknown

    @classmethod
    def switched(cls, on: bool) -> bool | None:
        """What a switch says. Switching on only restores what the family does by itself."""
        return cls.when_prompt_is_unknown if on else False

    # -- before the first word ---------------------------------------------------------------------------------------

    def read_start(self) -> None:
        """Where the output begins, as the prompt told."""
        if self.context.reasoning_open:
            self.phase = "lead"
        else:
            self.phase = "plain" if self.plain_when_closed else "undecided"

    def _opener_first(self) -> bool | None:
        """Whether the first text that is not blank is the opener. Consumes the opener and the blank before it."""
        blank = self._blank()
        starts = self.starts(self.opener, blank) if blank < self.waiting else (False if self.final else None)
        if starts:
            self._drop(blank + len(self.opener))
            self.ahead = 0
        return starts

    def _blank(self) -> int:
        """Length of the blank run at the cursor; remembers how far it looked."""
        at, buffer, size = self._at + self.ahead, self.buffer, len(self.buffer)
        while at < size and buffer[at] in BLANK:
            at += 1
        self.ahead = at - self._at
        return self.ahead

    def read_lead(self) -> NeedData | None:
        """Open reasoning: an opener that the model writes again is swallowed."""
        starts = self._opener_first()
        if starts is None:
            return NEED_DATA
        self.phase, self.ahead = "reasoning", 0
        return None

    def read_undecided(self) -> NeedData | None:
        """The model opens reasoning itself, or does not reason."""
        starts = self._opener_first()
        if starts is None:
            return NEED_DATA
        self.phase, self.ahead = ("reasoning" if starts else "content"), 0
        return None

    # -- reasoning ---------------------------------------------------------------------------------------------------

    def read_reasoning(self) -> NeedData | None:
        """Reasoning until its closer, or until a tool call's opener, which may end it."""
        openers = self.context.tool_call_openers
        count, marker = self.find((self.closer, *openers, *self.noise, *self.ends_message))
        self._reason(count)
        if marker is None:
            if self.final:
                self._end_reasoning()
            return NEED_DATA
        if marker == self.closer:
            self._close()
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
        if self.strip_newlines:
            text = text if self.spoke else text.lstrip("\n")
            body = text.rstrip("\n")
        else:
            body = text
        self.tail = text[len(body) :]
        if body:
            self.emit(Reasoning(body))
            self.spoke = True

    def _end_reasoning(self) -> None:
        self.ahead, self.begin, self.tail, self.scan, self.spoke = 0, 0, "", "", False

    def _close(self) -> None:
        self._end_reasoning()
        self._drop(len(self.closer))
        self.phase = "after" if self.strip_newlines else "content"

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
        self.ahead, marker = self.find((self.closer, self.opener, *self.ends_message, *BRACES), self.ahead)
        if marker is None:
            return self._held_to_the_end() if self.final else NEED_DATA
        if marker in BRACES:
            self.scan, self.begin = START, self.ahead
        elif marker == self.closer:
            self._reason(self.ahead)
            self._close()
        else:
            self._release()
        return None

    def _close_within(self, end: int) -> bool:
        """Close at a closer that stands in a string of what turned out to be no JSON, up to ``end``."""
        closer = self.buffer.find(self.closer, self._at + self.begin, self._at + end)
        if closer < 0:
            return False
        self._reason(closer - self._at)
        self._close()
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
        self.phase = "content"

    # -- the answer --------------------------------------------------------------------------------------------------

    def read_after(self) -> NeedData | None:
        """Newlines behind the closer are framing."""
        count = 0
        while self.peek(1, count) == "\n":
            count += 1
        self._drop(count)
        if not self.waiting:
            return NEED_DATA
        self.phase = "content"
        return None

    def read_content(self) -> NeedData | None:
        """The answer. Stray markers are swallowed, quoted ones kept, and strings of JSON are not looked into."""
        tools = bool(self.context.tools)
        others = BRACES if tools else (*self.noise, *self.ends_message)  # with tools, those are the tool parser's
        count, marker = self.find((self.opener, self.closer, *others))
        self._answer(count)
        if marker is None:
            return NEED_DATA
        if marker in BRACES:
            self.scan, self.phase = START, "json"
        elif marker == self.closer:
            if self.quoted:
                self._answer(len(marker))
            else:
                self._drop(len(marker))
        elif marker == self.opener:
            self._opener_in_answer()
        elif marker in self.noise:
            self._drop(len(marker))
        else:
            self.phase = "done"
        return None

    def _opener_in_answer(self) -> None:
        if self.reopens:
            self._drop(len(self.opener))
            self.phase = "reasoning"
        else:
            self.quoted = True
            self._answer(len(self.opener))

    def read_json(self) -> NeedData | None:
        """JSON in the answer of a request with tools: a marker inside its strings is data."""
        at, self.scan = scan_json(self.buffer, self._at, self.scan)
        self._answer(at - self._at)
        if self.scan not in (DONE, BAD):
            return NEED_DATA
        self.phase, self.scan = "content", ""
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
        if count:
            self.spans.append((False, count))
            self.emit_text(count)

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
        return None
