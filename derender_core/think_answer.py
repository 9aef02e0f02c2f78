"""``AnswerMachine``: the answer behind reasoning, with the markers that stand in it.

answer := text | answer_opener text [answer_closer text]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from derender_core.events import Text
from derender_core.json_scan import BAD, DONE, START, scan_json
from derender_core.machine import NEED_DATA, Machine, NeedData

__all__ = ["BLANK", "BRACES", "AnswerMachine"]

BLANK = " \t\r\n"
BRACES = ("{", "[")


@dataclass
class AnswerMachine(Machine):
    """The part of ``ThinkMachine`` that reads the answer.

    Args:
        ahead: how much of the buffer was looked at without consuming it.
        tail: blank text that is framing unless more text of its kind follows.
        scan: the JSON scanner's state.
        quoted: whether the answer holds a literal opener, which makes later closers literal too.
        wrapped: whether the answer stands between tags of its own, and its end is to come.
        called: whether the JSON that is being read stands right behind a tool call's opener.
    """

    ahead: int = 0
    tail: str = ""
    scan: str = ""
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
    reopens: ClassVar[bool] = False
    """Whether an opener inside the answer begins reasoning again; otherwise it is literal there."""
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

    @property
    def _framing(self) -> str:
        """The characters that are framing next to a marker."""
        return BLANK if self.strip_blank else "\n" if self.strip_newlines else ""

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
        markers = (*tags, *others, *openers)
        if self.final and tools and not self.looked_ahead:  # once: the marker may stand far away
            # JSON and calls are read only for what may stand in them: with no marker of its own to come, none need be.
            self.looked_ahead = True
            own = (*tags, self.answer_closer) if self.wrapped else tags
            markers = markers if self.find(own)[1] else ()
        count, marker = self.find(markers)
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
