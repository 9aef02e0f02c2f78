"""What a parser says: five frozen events, compared by value.

A parse is a list of events, so a test is ``assert got == expected``. Events carry no OpenAI ids, roles or finish
reasons; those belong to the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from derender_core.inputs import Special, join_specials

__all__ = ["Event", "Reasoning", "Text", "ToolCallArguments", "ToolCallEnd", "ToolCallStart", "merge_events"]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer.

    Args:
        text: what the user reads. Never empty.
        specials: where special tokens stand in it, for a parser further down the pipeline. Not compared.
    """

    text: str
    specials: tuple[Special, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's reasoning. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A tool call begins.

    Args:
        index: position of the call in this answer, from 0, in order of appearance.
        name: the function's name. Never empty.
        id: only where the format prescribes one; otherwise the server derives it.
    """

    index: int
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A piece of a call's arguments. All pieces of a call joined are one JSON object."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is complete. A call that turns out cut or malformed after it was announced never ends."""

    index: int


Event = Text | Reasoning | ToolCallStart | ToolCallArguments | ToolCallEnd


def merge_events(events: Iterable[Event]) -> list[Event]:
    """Join neighbours of one kind, so that two parses of one output compare equal however it was cut."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Text) and isinstance(last, Text):
            specials = join_specials(last.specials, event.specials, len(last.text))
            merged[-1] = Text(last.text + event.text, specials)
        elif isinstance(event, Reasoning) and isinstance(last, Reasoning):
            merged[-1] = Reasoning(last.text + event.text)
        elif isinstance(event, ToolCallArguments) and isinstance(last, ToolCallArguments) and last.index == event.index:
            merged[-1] = ToolCallArguments(event.index, last.fragment + event.fragment)
        else:
            merged.append(event)
    return merged
