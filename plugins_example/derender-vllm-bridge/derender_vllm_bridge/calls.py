"""Turns what vLLM's tool parsers say, OpenAI deltas, into events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from derender_core import Event, Special, Text, ToolCallArguments, ToolCallEnd, ToolCallStart, normalize_arguments

__all__ = ["CallWriter", "text_event"]


def text_event(content: str, text: str, specials: tuple[Special, ...]) -> Text:
    """Content as an event. When it is the end of ``text``, its special tokens are known."""
    start = len(text) - len(content)
    if not text.endswith(content):
        return Text(content)
    marks = [mark for mark in specials if mark.start >= start]
    return Text(content, tuple(Special(low - start, high - start, token_id) for low, high, token_id in marks))


class CallWriter:
    """The calls of one output.

    vLLM's deltas never say that a call is complete: it is when the next one begins, when text follows it, or at the end
    of the output, if its arguments are a JSON object.

    Args:
        whole: hold each call until it is complete.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._count = 0
        self._begun: set[int] = set()
        self._index: int | None = None
        self._name = ""
        self._id: str | None = None
        self.arguments = ""

    @property
    def is_open(self) -> bool:
        """Whether a call was begun and not closed."""
        return self._index is not None

    def message(self, message: Any, output: str) -> Iterator[Event]:
        """The events of the call parts of a delta.

        Args:
            message: vLLM's delta.
            output: the output so far.
        """
        for part in message.tool_calls or ():
            function = part.function
            name, arguments = (function.name, function.arguments) if function is not None else (None, None)
            if name and part.index not in self._begun:
                yield from self.close()
                # Most parsers make ids up. One that the model wrote is the format's own.
                written = part.id if part.id and part.id in output else None
                yield from self._start(part.index, name, written)
            if arguments and part.index == self._index:
                yield from self.add(arguments)

    def _start(self, index: int, name: str, call_id: str | None) -> Iterator[Event]:
        self._begun.add(index)
        self._index, self._name, self._id, self.arguments = index, name, call_id, ""
        if not self._whole:
            yield ToolCallStart(self._count, name, call_id)
            self._count += 1

    def add(self, fragment: str) -> Iterator[Event]:
        """A piece of the open call's arguments."""
        self.arguments += fragment
        if not self._whole:
            yield ToolCallArguments(self._count - 1, fragment)

    def close(self, *, cut: bool = False) -> Iterator[Event]:
        """Close the open call, if there is one. It is complete when its arguments are.

        Args:
            cut: the output was cut, so a call without any arguments is not complete.
        """
        if self._index is None:
            return
        self._index = None
        if not self.arguments and not cut:
            yield from self.add("{}")
        if not is_object(self.arguments):
            return
        if self._whole:
            yield ToolCallStart(self._count, self._name, self._id)
            yield ToolCallArguments(self._count, self.arguments)
            self._count += 1
        yield ToolCallEnd(self._count - 1)


def is_object(text: str) -> bool:
    """Whether a text is one strict JSON object, and needs no change to be one."""
    try:
        return text.lstrip().startswith("{") and normalize_arguments(text) is not None and json.loads(text) is not None
    except (ValueError, RecursionError):
        return False
