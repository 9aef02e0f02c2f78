"""``TextBuffer``: the text that a machine has not consumed yet, read through a cursor.

It is cut once per delta, so one huge delta costs what many small ones do.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

from derender_core.events import Event, Text
from derender_core.hookspecs import Span
from derender_core.inputs import Delta, ParseContext, Special
from derender_core.marker_patterns import marker_patterns

__all__ = ["TextBuffer"]


class Turn:
    """What belongs to the delta being read. In slots, so that a machine's ``__dict__`` is its state."""

    __slots__ = ("_added", "_at", "_events", "context", "final", "finish_reason", "looked_ahead", "spans")

    _added: dict[str, list[str]]
    _at: int
    _events: list[Event]
    context: ParseContext
    final: bool
    finish_reason: str | None
    looked_ahead: bool
    spans: list[Span]


@dataclass
class TextBuffer(Turn):
    """What a machine reads.

    Args:
        buffer: text that arrived and is not consumed.
        specials: where special tokens stand in the buffer.
    """

    buffer: str = ""
    specials: list[list[int]] | None = None

    control_markers: ClassVar[bool] = False
    """Whether the format's markers are control tokens, which ordinary text cannot produce: where token ids are known,
    only the special token itself is a marker, and text that looks like one is text."""
    text_markers: ClassVar[tuple[str, ...]] = ()
    """Markers of such a format that ordinary text writes all the same."""

    def _begin(self, delta: Delta, context: ParseContext) -> None:
        """Set what belongs to this delta alone and is not state."""
        self._at = 0
        self._events = []
        self._added = {}
        self.spans = []
        self.context = context
        self.final = delta.final
        self.finish_reason = delta.finish_reason
        self.looked_ahead = False
        if delta.specials:
            size = len(self.buffer)
            marks = [[low + size, high + size, token] for low, high, token in delta.specials]
            self.specials = (self.specials or []) + marks
        if delta.text:
            self.buffer = self.buffer + delta.text if self.buffer else delta.text

    def _cut(self) -> None:
        """Forget what was consumed."""
        if self._added:
            for field in tuple(self._added):
                self.text_of(field)
        at = self._at
        if not at:
            return
        self.buffer = self.buffer[at:]
        if self.specials:
            self.specials = [[low - at, high - at, tok] for low, high, tok in self.specials if low >= at] or None
        self._at = 0

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of characters in the buffer that are not consumed."""
        return len(self.buffer) - self._at

    def emit(self, event: Event) -> None:
        """Add an event to what this delta gives."""
        self._events.append(event)

    def peek(self, count: int, offset: int = 0) -> str:
        """Up to ``count`` unconsumed characters from ``offset`` on, without consuming them."""
        start = self._at + offset
        return self.buffer[start : start + count]

    def take(self, count: int) -> str:
        """Consume ``count`` characters."""
        start = self._at
        text = self.buffer[start : start + count]
        self._at = start + len(text)
        return text

    def take_rest(self) -> str:
        """Consume everything."""
        return self.take(self.waiting)

    def skip(self, count: int) -> None:
        """Consume ``count`` characters that nobody will see."""
        self._at = min(self._at + count, len(self.buffer))

    def emit_text(self, count: int) -> None:
        """Consume ``count`` characters and emit them as ``Text``, special tokens included."""
        if count <= 0:
            return
        start = self._at
        text = self.buffer[start : start + count]
        self._at = start + len(text)
        marks: tuple[Special, ...] = ()
        if self.specials:
            first, last = bisect_left(self.specials, [start]), bisect_left(self.specials, [self._at])
            inside = self.specials[first:last]
            if inside:
                marks = tuple([Special(low - start, high - start, token) for low, high, token in inside])
        self._events.append(Text(text, marks))

    def find(self, markers: tuple[str, ...], offset: int = 0) -> tuple[int, str | None]:
        """Look for the first of ``markers`` from ``offset`` on, without consuming anything.

        Returns:
            Its offset from the cursor and the marker; or, when there is none, the offset from which a marker may
            still begin (everything, when ``final``) and None.
        """
        buffer, start, size = self.buffer, self._at + offset, len(self.buffer)
        if not markers:
            return size - self._at, None
        patterns = marker_patterns(markers)
        begins = patterns.begin.search(buffer, start)
        if begins is None:
            return size - self._at, None
        start = begins.start()
        match = patterns.whole.search(buffer, start)
        by_token = self.by_token
        while match and by_token and match[0] not in self.text_markers:
            if self._is_token(match.start(), match.end()):
                break
            match = patterns.whole.search(buffer, match.start() + 1)
        if match:
            longer = match[0] in patterns.nested and not self.final and (not by_token or match[0] in self.text_markers)
            undecided = longer and patterns.partial.match(buffer, match.start())
            return match.start() - self._at, None if undecided else match[0]
        if by_token:
            markers = tuple(marker for marker in markers if marker in self.text_markers)
            patterns = marker_patterns(markers) if markers else patterns
        if markers and not self.final:
            tail = size - patterns.longest
            match = patterns.partial.search(buffer, tail if tail > start else start)
            if match:
                return match.start() - self._at, None
        return size - self._at, None

    @property
    def by_token(self) -> bool:
        """Whether token ids tell a marker from text that looks like one."""
        return self.control_markers and self.context.has_token_ids

    def _is_token(self, start: int, end: int) -> bool:
        """Whether a special token made just this stretch of the buffer."""
        marks = self.specials or []
        at = bisect_left(marks, [start])
        return at < len(marks) and marks[at][0] == start and marks[at][1] == end

    def next_token(self, offset: int) -> int:
        """Where in the buffer the next special token begins, from ``offset`` on; -1 when there is none, or when tokens
        do not tell markers from text."""
        if not self.specials or not self.by_token:
            return -1
        at = bisect_left(self.specials, [self._at + offset])
        return self.specials[at][0] if at < len(self.specials) else -1

    def is_cut(self, markers: tuple[str, ...], offset: int) -> bool:
        """Whether the text ended for good within what may have been one of ``markers`` at ``offset``."""
        return self.final and self.waiting - offset > 0 and self.cut_marker(markers, offset) == offset

    def cut_marker(self, markers: tuple[str, ...], offset: int = 0) -> int:
        """The offset of what may be the beginning of one of ``markers`` at the end of the text, else of that end."""
        patterns, start, size = marker_patterns(markers), self._at + offset, len(self.buffer)
        match = patterns.partial.search(self.buffer, max(start, size - patterns.longest))
        return (match.start() if match and not self.by_token else size) - self._at

    def take_until(self, *markers: str) -> tuple[str, str | None]:
        """Consume up to and including the first of ``markers``.

        Returns:
            The text before it and the marker; or, when there is none yet, all text that cannot be the beginning of
            one (all text, when ``final``) and None.
        """
        count, marker = self.find(markers)
        text = self.take(count)
        if marker is not None:
            self.skip(len(marker))
        return text, marker

    def starts(self, marker: str, offset: int = 0) -> bool | None:
        """Whether ``marker`` stands at ``offset``; None when the buffer ends within it and more may come."""
        seen = self.peek(len(marker), offset)
        if self.by_token and marker not in self.text_markers:
            start = self._at + offset
            if not seen and not self.final:
                return None
            return seen == marker and self._is_token(start, start + len(marker))
        if seen == marker:
            return True
        return None if marker.startswith(seen) and not self.final else False

    # -- texts that are kept -----------------------------------------------------------------------------------------

    def add_text(self, field: str, text: str) -> None:
        """Append to a field that is a text. It is joined once per delta: thousands of pieces would cost their square.

        Whoever adds to a field reads it with ``text_of``, and sets it with ``set_text``.
        """
        if text:
            self._added.setdefault(field, []).append(text)

    def text_of(self, field: str) -> str:
        """Such a field, with what was added."""
        pieces = self._added.pop(field, None)
        if pieces:
            setattr(self, field, getattr(self, field) + "".join(pieces))
        text: str = getattr(self, field)
        return text

    def set_text(self, field: str, text: str) -> None:
        """Set such a field."""
        self._added.pop(field, None)
        setattr(self, field, text)
