"""Stream replay: rebuilds a state from recorded chunks.

For streams that began elsewhere, for parsers that cannot save their state, and for tests. It costs as much as parsing
everything again, so it is a tool and not the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from derender_core.errors import InputError
from derender_core.events import Event
from derender_core.hookspecs import State, Step, hookimpl
from derender_core.inputs import Delta, ParseContext, Special
from derender_core.plugin import MarkerHooks
from derender_core.stream import Stream

__all__ = ["FeedParser", "ReplayPlugin", "replay"]


def replay(stream: Stream, token_ids: Sequence[int], chunk_lens: Sequence[int]) -> list[list[Event]]:
    """Push recorded chunks through a fresh stream.

    Args:
        stream: a stream that nothing was pushed to.
        token_ids: all recorded ids.
        chunk_lens: how many of them came with each chunk.

    Returns:
        The events of each chunk.

    Raises:
        InputError: lengths that are not positive, or do not sum to the number of ids.
    """
    if any(type(length) is not int or length <= 0 for length in chunk_lens):
        raise InputError("output_chunk_lens must hold positive integers", "stream_state.output_chunk_lens")
    if sum(chunk_lens) != len(token_ids):
        raise InputError(
            f"output_chunk_lens sum to {sum(chunk_lens)} but output_token_ids has {len(token_ids)} ids",
            "stream_state.output_chunk_lens",
        )
    chunks: list[list[Event]] = []
    at = 0
    for length in chunk_lens:
        chunks.append(stream.push(token_ids[at : at + length]))
        at += length
    return chunks


class FeedParser(Protocol):
    """A parser that keeps its state to itself."""

    def feed(self, delta: Delta) -> Iterable[Event]:
        """Take the next delta; the events that became certain."""
        ...


class ReplayPlugin(MarkerHooks):
    """Serves a stateful parser object through the hooks by replaying to a new one what was fed before.

    Its state grows with the output and each delta costs as much as all before it. Write a ``Machine`` where you can.

    Args:
        factory: makes a fresh parser for a request.
        description: one line for ``derender parsers``.
        special_tokens: special tokens that the parser must see as text.
        tool_call_openers: tool parsers: the markers with which calls begin.
    """

    def __init__(
        self,
        factory: Callable[[ParseContext], FeedParser],
        *,
        description: str = "",
        special_tokens: Sequence[str] = (),
        tool_call_openers: Sequence[str] = (),
    ) -> None:
        super().__init__(special_tokens, tool_call_openers)
        self._factory = factory
        self.description = description or (factory.__doc__ or "").strip().split("\n", 1)[0]

    @hookimpl
    def derender_parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Feed a fresh parser all recorded deltas, then this one."""
        recorded = state["deltas"] if state else []
        parser = self._factory(context)
        for text, specials in recorded:
            for _ in parser.feed(Delta(text, tuple(Special(*mark) for mark in specials))):
                pass
        events = tuple(parser.feed(delta))
        entry = [delta.text, [list(mark) for mark in delta.specials]]
        return Step({"deltas": [*recorded, entry]}, events)

    @hookimpl
    def derender_check_state(self, state: State) -> str | None:
        """A list of recorded deltas and nothing else."""
        deltas = state.get("deltas")
        if set(state) != {"deltas"} or not isinstance(deltas, list):
            return "it must hold a list 'deltas' and nothing else"
        return None if all(map(_is_recorded, deltas)) else "'deltas' must hold pairs of a text and its special tokens"


def _is_recorded(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    text, marks = entry
    return isinstance(text, str) and isinstance(marks, list) and all(_is_mark(mark, len(text)) for mark in marks)


def _is_mark(mark: object, size: int) -> bool:
    return (
        isinstance(mark, list)
        and len(mark) == 3
        and all(type(part) is int for part in mark)
        and 0 <= mark[0] <= mark[1] <= size
    )
