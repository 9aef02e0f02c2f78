"""``TaggedCallMachine``: calls as JSON between an opening and a closing marker, such as ``<tool_call>…</tool_call>``.

    output  := segment*             segment := text | call
    call    := opener blank objects blank closer
    objects := object (blank object)* | "[" object ("," object)* "]"

A closing marker inside a JSON string is data. Outside of one it ends the call, well-formed or not: a malformed call
comes back as text, markers included. At a normal end a complete object needs no closer; a call that was cut is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.hookspecs import State
from derender_core.json_call import JsonCallMachine, Progress
from derender_core.json_scan import BAD, DONE, in_string
from derender_core.json_text import Call, parse_calls
from derender_core.machine import NEED_DATA, NeedData
from derender_core.tool_machine import BLANK

__all__ = ["TaggedCallMachine"]


@dataclass
class TaggedCallMachine(JsonCallMachine):
    """Base of tool parsers with JSON calls between markers.

    A subclass sets ``opener`` and ``closer``; formats with more around the JSON override ``read_start`` (from the
    opener to the JSON), ``read_tail`` (from the JSON to the closer) and ``region_calls``.

    Args:
        complete: where it ends, once it is complete.
        listed: whether it is a list, which is read without looking into it.
    """

    phase: str = "content"
    complete: int = 0
    listed: bool = False

    opener: ClassVar[str]
    closer: ClassVar[str]
    breaks: ClassVar[tuple[str, ...]] = ()
    """Markers that cannot stand inside a call, besides ``opener``: a call without closer ends before them."""
    mentions: ClassVar[bool] = True
    """Whether an opener without any JSON behind it, never closed, is prose that mentions it."""
    noise: ClassVar[tuple[str, ...]] = ()
    """Markers that are never text, such as the end of a sentence: they vanish."""
    ends_message: ClassVar[tuple[str, ...]] = ()
    """Markers behind which the model runs on into another turn: the rest of the output is ignored."""

    @property
    def ends(self) -> tuple[str, ...]:
        """The markers that end a call, well-formed or not."""
        return (self.closer, self.opener, *self.breaks, *self.ends_message)

    # -- text --------------------------------------------------------------------------------------------------------

    def read_content(self) -> NeedData | None:
        """Text until an opener. Closers and breaks without an opener are swallowed."""
        marker = self.content_until((self.opener, self.closer, *self.breaks, *self.noise, *self.ends_message))
        if marker is None:
            return NEED_DATA
        if marker in self.ends_message:
            self.phase = "done"
        elif marker in self.noise:
            self.skip(len(marker))
        elif marker in (self.closer, *self.breaks):
            self.skip(len(marker))
            self.removed = True
        else:
            self.open()
        return None

    # -- a call ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin the region of a call at the cursor, where its opener stands."""
        self.begin_region(self.opener)
        self.phase = "start"

    def forget_region(self) -> None:
        """As ``JsonCallMachine.forget_region``, and where the JSON stands."""
        super().forget_region()
        self.complete, self.listed = 0, False

    def read_start(self) -> NeedData | None:
        """From the opener to the JSON."""
        char = self.skip_blank()
        if char == "":
            return self._wait()
        return self.begin_body(char)

    def begin_body(self, char: str) -> NeedData | None:
        """Begin the JSON that starts with ``char`` where the region was read to, or say that there is none."""
        if char not in "{[":
            self.phase = "junk"
            return None
        self.begin_value()
        self.body, self.listed, self.phase = self.ahead, char == "[", "json"
        return None

    def read_json(self) -> NeedData | None:
        """The JSON."""
        progress = self.walk_body()
        if progress == "more":
            return self._wait()
        if progress == "done":
            self.complete, self.phase = self.ahead, "tail"
        else:
            self.phase = "junk"
        return None

    def walk_body(self) -> Progress:
        """Read on in the JSON. Its members matter only to a stream that announces calls by their name."""
        return self.walk_object() if self.sending or (self.streams and not self.listed) else self.walk_value()

    def may_announce(self, name: str) -> bool:
        """Objects that stand behind another in one region are not announced: the region is one unit."""
        return bool(name) and not self.complete

    def read_tail(self) -> NeedData | None:
        """From the JSON to the closer."""
        char = self.skip_blank()
        marker = self.which(self.ends) if char else None
        if marker is None:
            return self._wait()
        if marker:
            self.close(marker)
        elif self.may_follow(char):
            self._next_object()
        else:
            self.phase = "junk"
        return None

    def may_follow(self, char: str) -> bool:
        """Whether the JSON goes on: several objects may stand in one region."""
        return char == "{" and not self.listed

    def _next_object(self) -> None:
        if self.announced:
            self.end_call()
            self.begin_region()
        self.begin_value()
        self.phase = "json"

    def read_junk(self) -> NeedData | None:
        """What is no JSON, until a marker ends the call."""
        self.ahead, marker = self.find(self.ends, self.ahead)
        if marker is None:
            return self._wait()
        self.reject(marker)
        return None

    def close(self, marker: str) -> None:
        """The JSON is complete and ``marker`` follows."""
        calls = [] if self.announced else self.region_calls()
        if calls is None:
            self.reject(marker)
            return
        if marker == self.closer:
            self.ahead += len(marker)
        self.accept(calls)

    def region_calls(self) -> list[Call] | None:
        """The calls of the region's JSON, or None when it is malformed."""
        return parse_calls(self.peek(self.complete - self.body, self.body))

    def accept(self, calls: list[Call]) -> None:
        """Send the calls of the region, or end the one that was announced, and consume what was read."""
        if self.announced:
            self.end_call()
        self.end_region()
        for call in calls:
            self.call(call)
        self.phase = self.outside

    def reject(self, marker: str) -> None:
        """The region is malformed and ``marker`` ends it.

        With its closer it comes back as text. Without, the opener was a stray one: it vanishes, its text stays.
        """
        self.phase = self.outside
        if marker == self.closer:
            self.ahead += len(marker)
        if self.announced:
            self.end_region()
        elif self._ends_at_closer(sure=marker == self.closer):
            self.end_region(as_text=True)
        else:
            self.stray()

    def _ends_at_closer(self, *, sure: bool) -> bool:
        """End a malformed region at its first closer, if a string that never ended swallowed that one.

        Args:
            sure: whether the region ends with a closer anyway; then the first one counts only when the next call was
                swallowed with it.
        """
        first = self._first_closer() if self.scan == BAD else 0
        if not 0 < first <= self.ahead:
            return sure
        if not sure or self.opener in self.peek(self.ahead - first, first):
            self.ahead = first
        return True

    def stray(self) -> None:
        """The region is malformed and was never closed: drop its opener, keep its text."""
        self.skip(len(self.opener))
        self.ahead -= len(self.opener)
        self.removed = True
        self.end_region(as_text=True)

    # -- the end of the output ---------------------------------------------------------------------------------------

    def _wait(self) -> NeedData | None:
        if not self.final:
            return NEED_DATA
        self.cut()
        self.phase = self.outside
        return None

    def cut(self) -> None:
        """The output ended within the region."""
        if self.ended_normally and (self.complete or self.scan == DONE):
            self._cut_behind_json()
        elif not self.announced and self._swallowed_closer():
            # The first closer ends this call after all, and the rest is read again.
            self.ahead = self._first_closer()
            self.end_region(as_text=True)
        elif self.mentions and self.phase == "junk" and not self.body and not self.announced:
            self.ahead = self.waiting  # prose behind a marker that it only mentions
            self.end_region(as_text=True)
        else:
            self.ahead = self.waiting
            self.end_region()

    def _swallowed_closer(self) -> bool:
        """Whether a closer stands in a string that never ended, or in one of what turned out to be no JSON."""
        broken = self.scan == BAD or (self.ended_normally and in_string(self.scan))
        return broken and self._first_closer() > 0

    def _first_closer(self) -> int:
        """Where the first closer of the region ends, 0 when there is none."""
        found = self.buffer.find(self.closer, self._at + self.body)
        return found + len(self.closer) - self._at if found >= 0 else 0

    def _cut_behind_json(self) -> None:
        """The JSON is complete and only the closer is missing: the call counts, and what follows it is text."""
        calls = [] if self.announced else self.region_calls()
        rest = self.peek(self.waiting, self.complete)
        nothing_follows = calls is None or self.phase == "json" or self.is_tail(rest)
        self.ahead = self.waiting if nothing_follows else self.complete
        if calls is None:
            self.end_region()
        else:
            self.accept(calls)

    def is_tail(self, rest: str) -> bool:
        """Whether what follows the JSON at the end of the output is only what belongs in front of a closer."""
        return self.closer.startswith(rest.strip(BLANK))

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``JsonCallMachine.check``, and that ``complete`` lies within what was read."""
        wrong = super().check(state)
        if not wrong and state.get("complete", 0) > state.get("ahead", 0):
            return "field 'complete' points outside the buffer"
        return wrong
