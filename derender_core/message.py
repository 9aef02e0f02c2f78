"""``fold_message``: what a list of events amounts to."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from derender_core.events import Event, Reasoning, Text, ToolCallArguments, ToolCallEnd, ToolCallStart

__all__ = ["Message", "ToolCall", "fold_message"]


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A complete call.

    Args:
        name: the function's name.
        arguments: the text of one JSON object.
        id: only where the model's format prescribes one.
    """

    name: str
    arguments: str
    id: str | None = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """A parsed answer. What there is none of is None, or no calls."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


def fold_message(events: Iterable[Event]) -> Message:
    """Fold the events of a whole answer. A call counts when it was ended."""
    content: list[str] = []
    reasoning: list[str] = []
    starts: dict[int, ToolCallStart] = {}
    arguments: dict[int, list[str]] = {}
    ended: list[int] = []
    for event in events:
        if isinstance(event, Text):
            content.append(event.text)
        elif isinstance(event, Reasoning):
            reasoning.append(event.text)
        elif isinstance(event, ToolCallStart):
            starts[event.index] = event
            arguments[event.index] = []
        elif isinstance(event, ToolCallArguments):
            arguments[event.index].append(event.fragment)
        elif isinstance(event, ToolCallEnd):
            ended.append(event.index)
    calls = tuple(ToolCall(starts[index].name, "".join(arguments[index]), starts[index].id) for index in ended)
    return Message("".join(content) or None, "".join(reasoning) or None, calls)
