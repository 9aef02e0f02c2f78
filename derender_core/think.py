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
from derender_core.machine import NEED_DATA, NeedData
from derender_core.think_answer import BLANK, BRACES, AnswerMachine

__all__ = ["ThinkMachine"]


@dataclass
class ThinkMachine(AnswerMachine):
    """Base of reasoning parsers with an opener and a closer. A subclass sets what its family does differently; what is
    not here is in ``AnswerMachine``.

    Args:
        begin: where the JSON that is being read behind a tool call's opener begins.
        spoke: whether reasoning was sent.
    """

    begin: int = 0
    spoke: bool = False

    strip_last_newline: ClassVar[bool] = False
    """Whether one newline in front of the closer is."""
    plain_when_closed: ClassVar[bool] = False
    """Whether an output that does not begin inside reasoning is not looked at, markers included."""
    when_prompt_is_silent: ClassVar[bool | None] = None
    """Whether reasoning is open when the prompt's current turn holds no marker. None: the output tells."""
    when_prompt_is_unknown: ClassVar[bool | None] = None
    """The same when there is no prompt and ``template_kwargs`` do not decide."""
    switches: ClassVar[tuple[str, ...]] = ()
    """Boolean ``template_kwargs`` that turn reasoning on or off, the family's own spelling first."""

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

    # -- before the first word ---------------------------------------------------------------------------------------

    def read_start(self) -> None:
        """Where the output begins, as the prompt told."""
        if self.context.reasoning_open:
            self.phase = "lead"
        else:
            self.phase = "plain" if self.plain_when_closed else "undecided"

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
