"""Parser events as parts, one after the other: what the items of a Response and the blocks of a Message are made of.

Reasoning, text and calls stand in the order in which the model gave them. Both APIs know one open part at a time, so a
part is closed before the next one opens. One-shot answers and streams come from the same parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from derender_core.errors import StateError
from derender_core.events import (
    Event,
    Reasoning,
    Text,
    ToolCallArguments,
    ToolCallStart,
    merge_events,
)

__all__ = ["Closed", "Grown", "Opened", "Part", "PartChange", "PartTracker", "whole_parts"]

Kind = Literal["reasoning", "text", "call"]
KINDS: Mapping[object, Kind] = {"r": "reasoning", "t": "text", "c": "call"}
LARGEST = 2**53
PARAM = "stream_state.a"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one kind.

    Args:
        index: its position in the answer.
        kind: what it is.
        call: the index of a call among the calls.
        name: a call's function.
        id: a call's id, where the model's format prescribes one.
    """

    index: int
    kind: Kind
    call: int = 0
    name: str = ""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A part begins."""

    part: Part


@dataclass(frozen=True, slots=True)
class Grown:
    """The open part goes on. Of a call: its arguments."""

    part: Part
    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """A part ends.

    Args:
        part: the part.
        complete: False when the output was cut in it, and for a call that turned out to be none.
    """

    part: Part
    complete: bool


PartChange = Opened | Grown | Closed


class PartTracker:
    """Follows the events of a stream from chunk to chunk.

    Args:
        show_reasoning: False leaves reasoning out.
        max_calls: how many calls are shown; None is all.
        state: what ``state`` of the chunk before gave.

    Attributes:
        open: the part that is open.
        count: parts that were begun.
        calls: calls that were completed.
        checksum: CRC-32 of the text of the open part.

    Raises:
        StateError: ``state`` was not made here.
    """

    def __init__(self, show_reasoning: bool, max_calls: int | None, state: Mapping[str, Any] | None = None) -> None:
        self._show_reasoning, self._max_calls = show_reasoning, max_calls
        state = state or {}
        self.count = _count(state, "n")
        self.calls = _count(state, "e")
        self.checksum = _count(state, "x")
        self.open: Part | None = None
        if "k" in state:
            self.open = _open_part(state, self.count)

    def push(self, events: Iterable[Event], finish_reason: str | None) -> Iterator[PartChange]:
        """What events change. The reason that ends the stream closes the open part.

        Args:
            events: the next events.
            finish_reason: the engine's; None while the stream goes on.
        """
        for event in merge_events(events):
            if isinstance(event, ToolCallStart):
                if self._shown(event.index):
                    yield from self._begin("call", event.index, event.name, event.id)
            elif isinstance(event, (Text, Reasoning)):
                kind: Kind = "text" if isinstance(event, Text) else "reasoning"
                if kind == "reasoning" and not self._show_reasoning:
                    continue
                if self.open is None or self.open.kind != kind:
                    yield from self._begin(kind)
                yield self._grow(event.text)
            elif self.open is not None and self.open.kind == "call" and self.open.call == event.index:
                if isinstance(event, ToolCallArguments):
                    yield self._grow(event.fragment)
                else:
                    self.calls += 1
                    yield from self._close(True)
        if finish_reason is not None:
            yield from self._close(finish_reason == "stop" and self.open is not None and self.open.kind != "call")

    @property
    def state(self) -> dict[str, Any]:
        """The state, JSON-plain and of bounded size. What is zero is left out."""
        counts = {"n": self.count, "e": self.calls, "x": self.checksum}
        state: dict[str, Any] = {key: count for key, count in counts.items() if count}
        if self.open is not None:
            state["k"] = self.open.kind[0]
            if self.open.kind == "call":
                state |= {"c": self.open.call, "m": self.open.name}
                if self.open.id is not None:
                    state["d"] = self.open.id
        return state

    def _shown(self, call: int) -> bool:
        return self._max_calls is None or call < self._max_calls

    def _begin(self, kind: Kind, call: int = 0, name: str = "", id_: str | None = None) -> Iterator[PartChange]:
        yield from self._close(self.open is not None and self.open.kind != "call")
        self.open, self.checksum = Part(self.count, kind, call, name, id_), 0
        self.count += 1
        yield Opened(self.open)

    def _grow(self, text: str) -> PartChange:
        assert self.open is not None
        self.checksum = zlib.crc32(text.encode(errors="surrogatepass"), self.checksum)
        return Grown(self.open, text)

    def _close(self, complete: bool) -> Iterator[PartChange]:
        if self.open is not None:
            part, self.open = self.open, None
            yield Closed(part, complete)


def whole_parts(
    events: Iterable[Event], finish_reason: str, *, show_reasoning: bool, max_calls: int | None
) -> list[tuple[Part, str, bool]]:
    """The parts of a whole answer with their texts, and whether they are complete. Calls that are not, are left out."""
    tracker = PartTracker(show_reasoning, max_calls)
    found: list[tuple[Part, str, bool]] = []
    texts: list[str] = []
    for change in tracker.push(events, finish_reason):
        if isinstance(change, Opened):
            texts = []
        elif isinstance(change, Grown):
            texts.append(change.text)
        elif change.complete or change.part.kind != "call":
            found.append((change.part, "".join(texts), change.complete))
    return found


def _open_part(state: Mapping[str, Any], count: int) -> Part:
    key = state["k"]
    kind = KINDS.get(key) if isinstance(key, str) else None
    if kind is None or count == 0:
        raise StateError(f"{PARAM}.k names no part; send the state back as it was given", f"{PARAM}.k")
    if kind != "call":
        return Part(count - 1, kind)
    return Part(count - 1, kind, _count(state, "c"), _text(state, "m") or "", _text(state, "d"))


def _count(state: Mapping[str, Any], key: str) -> int:
    value = state.get(key, 0)
    if type(value) is not int or not 0 <= value < LARGEST:
        raise StateError(f"{PARAM}.{key} must be a count; send the state back as it was given", f"{PARAM}.{key}")
    return value


def _text(state: Mapping[str, Any], key: str) -> str | None:
    value = state.get(key)
    if value is not None and not isinstance(value, str):
        raise StateError(f"{PARAM}.{key} must be a text; send the state back as it was given", f"{PARAM}.{key}")
    return value
