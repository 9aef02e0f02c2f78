"""What a parser says: five frozen events, compared by value. Structs of ``msgspec``, because each token makes some.

A parse is a list of events, so a test is ``assert got == expected``. Events carry no OpenAI ids, roles or finish
reasons; those belong to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

import msgspec

from derender_core.inputs import Special

__all__ = [
    "Event",
    "Reasoning",
    "Text",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "join_texts",
    "merge_events",
]


class Text(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A piece of the answer.

    Args:
        text: what the user reads. Never empty.
        specials: where special tokens stand in it, for a parser further down the pipeline. Not compared.
    """

    text: str
    specials: tuple[Special, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Text) else NotImplemented

    def __hash__(self) -> int:
        return hash((Text, self.text))


class Reasoning(msgspec.Struct, frozen=True, gc=False):
    """A piece of the model's reasoning. Never empty."""

    text: str


class ToolCallStart(msgspec.Struct, frozen=True, gc=False):
    """A tool call begins.

    Args:
        index: position of the call in this answer, from 0, in order of appearance.
        name: the function's name. Never empty.
        id: only where the format prescribes one; otherwise the server derives it.
    """

    index: int
    name: str
    id: str | None = None


class ToolCallArguments(msgspec.Struct, frozen=True, gc=False):
    """A piece of a call's arguments. All pieces of a call joined are one JSON object."""

    index: int
    fragment: str


class ToolCallEnd(msgspec.Struct, frozen=True, gc=False):
    """The call is complete. A call that turns out cut or malformed after it was announced never ends."""

    index: int


Event = Text | Reasoning | ToolCallStart | ToolCallArguments | ToolCallEnd


def join_texts(texts: Sequence[Text]) -> Text:
    """One text from several, in time linear in their length."""
    specials: list[Special] = []
    at = 0
    for piece in texts:
        if piece.specials:
            specials += [Special(start + at, end + at, token_id) for start, end, token_id in piece.specials]
        at += len(piece.text)
    return Text("".join([piece.text for piece in texts]), tuple(specials))


def merge_events(events: Iterable[Event]) -> list[Event]:
    """Join neighbours of one kind, so that two parses of one output compare equal however it was cut."""
    merged: list[Event] = []
    for _, group in groupby(events, key=_kind):
        run = list(group)
        first = run[0]
        if len(run) == 1:
            merged.append(first)
        elif isinstance(first, Text):
            merged.append(join_texts(cast("list[Text]", run)))
        elif isinstance(first, Reasoning):
            merged.append(Reasoning("".join(cast(Reasoning, event).text for event in run)))
        elif isinstance(first, ToolCallArguments):
            fragments = (cast(ToolCallArguments, event).fragment for event in run)
            merged.append(ToolCallArguments(first.index, "".join(fragments)))
        else:
            merged += run
    return merged


def _kind(event: Event) -> tuple[type[Event], int]:
    return type(event), event.index if isinstance(event, ToolCallArguments) else 0
