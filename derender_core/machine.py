"""``Machine``: a parser as a phase, a buffer and one ``read_<phase>`` method per phase.

A machine is a dataclass whose fields are its whole state. ``feed`` appends the delta to the buffer and calls the reader
of the current phase until one says ``NEED_DATA``. A reader consumes from the buffer (``take``, ``skip``,
``take_until``), emits events, and may change ``phase``; it returns ``NEED_DATA`` when the buffer holds too little to
decide, and anything else to be called again. With ``self.final`` no more text will come, so a reader must then decide.

The buffer is read through a cursor and cut once per delta, so one huge delta costs what many small ones do.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from derender_core.events import Event, Text
from derender_core.hookspecs import Span, State
from derender_core.inputs import Delta, ParseContext, Special

__all__ = ["NEED_DATA", "Machine", "NeedData"]


class NeedData:
    """The type of ``NEED_DATA``."""

    def __repr__(self) -> str:
        return "NEED_DATA"


NEED_DATA: Final = NeedData()
"""What a reader returns when it cannot go on before more text arrives."""

Reader = Callable[[Any], object]


class _Markers(NamedTuple):
    """Patterns for a set of markers.

    Args:
        begin: the first character of a marker: most deltas hold none, and need no closer look.
        whole: a marker; where two begin at one place, the longer.
        partial: a proper prefix of a marker at the end of the text.
        longest: the length of the longest proper prefix.
        nested: markers with which another one begins.
    """

    begin: re.Pattern[str]
    whole: re.Pattern[str]
    partial: re.Pattern[str]
    longest: int
    nested: frozenset[str]


@lru_cache(maxsize=256)
def _compile(markers: tuple[str, ...]) -> _Markers:
    prefixes = {marker[:count] for marker in markers for count in range(1, len(marker))}
    return _Markers(
        re.compile(f"[{re.escape(''.join(sorted({marker[0] for marker in markers})))}]"),
        re.compile("|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True))),
        re.compile(f"(?:{'|'.join(map(re.escape, sorted(prefixes)))})\\Z" if prefixes else r"(?!)"),
        max(map(len, prefixes), default=0),
        frozenset(marker for marker in markers if marker in prefixes),
    )


class _Turn:
    """What belongs to the delta being read. In slots, so that a machine's ``__dict__`` is its state."""

    __slots__ = ("_at", "_events", "context", "final", "finish_reason", "spans")

    _at: int
    _events: list[Event]
    context: ParseContext
    final: bool
    finish_reason: str | None
    spans: list[Span]


@dataclass
class Machine(_Turn):
    """Base of all machines.

    Subclasses are dataclasses; every field has a default, and holds a JSON-plain value.

    Args:
        phase: name of the current reader, ``read_<phase>``.
        buffer: text that arrived and is not consumed.
        specials: where special tokens stand in the buffer.
    """

    phase: str = "start"
    buffer: str = ""
    specials: list[list[int]] | None = None

    control_markers: ClassVar[bool] = False
    """Whether the format's markers are control tokens, which ordinary text cannot produce: where token ids are known,
    only the special token itself is a marker, and text that looks like one is text."""
    text_markers: ClassVar[tuple[str, ...]] = ()
    """Markers of such a format that ordinary text writes all the same."""

    _readers: ClassVar[dict[str, Reader]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}

    def _begin(self, delta: Delta, context: ParseContext) -> None:
        """Set what belongs to this delta alone and is not state."""
        self._at = 0
        self._events = []
        self.spans = []
        self.context = context
        self.final = delta.final
        self.finish_reason = delta.finish_reason
        if delta.specials:
            size = len(self.buffer)
            marks = [[low + size, high + size, token] for low, high, token in delta.specials]
            self.specials = (self.specials or []) + marks
        if delta.text:
            self.buffer = self.buffer + delta.text if self.buffer else delta.text

    # -- what a reader uses ------------------------------------------------------------------------------------------

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
        text = self.take(count)
        marks: tuple[Special, ...] = ()
        if self.specials:
            first, last = bisect_left(self.specials, [start]), bisect_left(self.specials, [self._at])
            marks = tuple(Special(low - start, high - start, token) for low, high, token in self.specials[first:last])
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
        patterns = _compile(markers)
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
            patterns = _compile(markers) if markers else patterns
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
        patterns, start, size = _compile(markers), self._at + offset, len(self.buffer)
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

    # -- running -----------------------------------------------------------------------------------------------------

    def feed(self, delta: Delta, context: ParseContext) -> list[Event]:
        """Read one delta.

        Returns:
            The events that became certain.

        Raises:
            RuntimeError: a reader neither consumed anything, nor changed a field, nor asked for data.
        """
        self._begin(delta, context)
        readers = self._readers
        before = 0, self.phase, 0
        while readers[self.phase](self) is not NEED_DATA:
            now = self._at, self.phase, len(self._events)
            if now == before:
                self._get_on()
            before = now
        self._cut()
        return self._events

    def _get_on(self) -> None:
        """A reader neither consumed nor emitted anything: legal when it changed a field, so let it try once more."""
        before = self._at, self.save()
        if self._readers[self.phase](self) is not NEED_DATA and before == (self._at, self.save()):
            raise RuntimeError(f"{type(self).__name__}.read_{self.phase} does not get on")

    def _cut(self) -> None:
        at = self._at
        if not at:
            return
        self.buffer = self.buffer[at:]
        if self.specials:
            self.specials = [[low - at, high - at, tok] for low, high, tok in self.specials if low >= at] or None
        self._at = 0

    # -- state -------------------------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._defaults = {}  # filled on first use: the dataclass decorator runs after this

    @classmethod
    def _prepare(cls) -> None:
        cls._readers = {name.removeprefix("read_"): getattr(cls, name) for name in dir(cls) if name.startswith("read_")}
        if "__dataclass_fields__" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} must be decorated with @dataclass, like every machine")
        defaults = {}
        for field in fields(cls):
            if field.default is MISSING:
                raise TypeError(f"{cls.__name__}.{field.name} needs a plain default: it is part of a small JSON state")
            defaults[field.name] = field.default
        if defaults["phase"] not in cls._readers:
            raise TypeError(f"{cls.__name__} begins in phase {defaults['phase']!r} and has no read_{defaults['phase']}")
        cls._defaults = defaults

    @classmethod
    def load(cls, state: State | None) -> Any:
        """A machine in this state; a fresh one for None. The state itself is never changed."""
        if not cls._defaults:
            cls._prepare()
        machine = cls.__new__(cls)  # fields that are not set read their default from the class
        if state:
            values = machine.__dict__
            for key, value in state.items():
                values[key] = copy(value) if value.__class__ in (list, dict) else value
        return machine

    def save(self) -> State:
        """The fields that differ from their defaults."""
        defaults = self._defaults
        return {key: value for key, value in self.__dict__.items() if key in defaults and value != defaults[key]}

    @classmethod
    def check(cls, state: State) -> str | None:
        """Say what is wrong with a state from outside: unknown fields, wrong types, unknown phase, odd positions.

        Subclasses with stricter fields extend it. A state that passes must never make ``feed`` raise.
        """
        if not cls._defaults:
            cls._prepare()
        for key, value in state.items():
            if key not in cls._defaults:
                return f"unknown field {key!r}"
            default = cls._defaults[key]
            if default is None or isinstance(default, (list, dict)):
                continue
            if value.__class__ is not default.__class__:
                return f"field {key!r} must be of type {type(default).__name__}"
            if isinstance(value, int) and not 0 <= value <= 1 << 40:
                return f"field {key!r} is out of range"
        if state.get("phase", cls._defaults["phase"]) not in cls._readers:
            return f"unknown phase {state['phase']!r}"
        return _check_specials(state.get("specials"), len(state.get("buffer", "")))


def _check_specials(specials: object, size: int) -> str | None:
    if specials is None:
        return None
    if not isinstance(specials, list):
        return "field 'specials' must be a list"
    for mark in specials:
        if not (isinstance(mark, list) and len(mark) == 3 and all(type(part) is int for part in mark)):
            return "field 'specials' must hold lists of three integers"
        if not 0 <= mark[0] <= mark[1] <= size:
            return "field 'specials' points outside the buffer"
    return None
