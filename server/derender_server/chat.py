"""Parser events to the messages and deltas of chat completions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from derender_core.events import Event, Reasoning, Text, ToolCallArguments, ToolCallStart
from derender_core.message import Message
from derender_server.chat_options import ChatOptions

__all__ = ["CallIds", "chat_finish_reason", "delta_body", "message_body"]

DIGITS = 24


class CallIds(msgspec.Struct, frozen=True, gc=False):
    """Ids of the tool calls of one choice: functions of what is known at every retry, so they need not be stored.

    Args:
        request_id: id of the response.
        choice: index of the choice.
        given: ids that another server gave already, by call index.
        prefix: of the derived ids.
        length: of the derived ids, where the model's chat template accepts no others; they have no prefix then.
    """

    request_id: str
    choice: int
    given: Sequence[str] = ()
    prefix: str = "call_"
    length: int | None = None

    def of(self, call: int, prescribed: str | None) -> str:
        """The id of a call: the one given before, else the one the model's format prescribes, else a derived one."""
        if call < len(self.given):
            return self.given[call]
        if prescribed is not None:
            return prescribed
        if self.length is not None:
            return self._digest(self.length, call)
        return self.prefix + self.digest(call)

    def digest(self, *place: object) -> str:
        """24 hexadecimal digits for a place in the choice: the same at every retry, and another for every place."""
        return self._digest(DIGITS, *place)

    def _digest(self, digits: int, *place: object) -> str:
        source = "\0".join(map(str, (self.request_id, self.choice, *place))).encode(errors="surrogatepass")
        return hashlib.blake2b(source, digest_size=-(-digits // 2)).hexdigest()[:digits]


def message_body(message: Message, options: ChatOptions, ids: CallIds) -> dict[str, Any]:
    """The ``message`` of a one-shot choice. ``tool_calls`` is absent when there are none."""
    content = message.content
    if content is None and options.forced:
        content = ""  # a quirk of the protocol: null only where the model was free to answer in text
    body: dict[str, Any] = {"role": "assistant", "content": content}
    body.update(dict.fromkeys(options.reasoning_fields, message.reasoning))
    if not options.reasoning_fields:
        body["reasoning"] = None
    calls = [
        {
            "id": ids.of(index, call.id),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(message.tool_calls[: options.max_calls])
    ]
    if calls:
        body["tool_calls"] = calls
    return body


@dataclass(slots=True)
class _CallDelta:
    """What one call grew by in one chunk. Strict clients reject nulls, so what did not come is absent."""

    start: ToolCallStart | None = None
    fragments: list[str] = field(default_factory=list)

    def body(self, index: int, ids: CallIds) -> dict[str, Any]:
        arguments = "".join(self.fragments)
        if self.start is None:
            return {"index": index, "function": {"arguments": arguments}}
        return {
            "index": index,
            "id": ids.of(index, self.start.id),
            "type": "function",
            "function": {"name": self.start.name, "arguments": arguments},
        }


def delta_body(events: Sequence[Event], options: ChatOptions, ids: CallIds) -> dict[str, Any]:
    """The ``delta`` of a streamed choice: one entry a call, and no key without something to say."""
    text: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, _CallDelta] = {}
    for event in events:
        if isinstance(event, Text):
            text.append(event.text)
        elif isinstance(event, Reasoning):
            reasoning.append(event.text)
        elif options.max_calls is None or event.index < options.max_calls:
            call = calls.setdefault(event.index, _CallDelta())
            if isinstance(event, ToolCallStart):
                call.start = event
            elif isinstance(event, ToolCallArguments):
                call.fragments.append(event.fragment)
    body: dict[str, Any] = {}
    if text:
        body["content"] = "".join(text)
    if reasoning:
        joined = "".join(reasoning)
        body.update(dict.fromkeys(options.reasoning_fields, joined))
    entries = [call.body(index, ids) for index, call in calls.items() if call.start or call.fragments]
    if entries:
        body["tool_calls"] = entries
    return body


def chat_finish_reason(reason: str | None, *, calls: bool, options: ChatOptions) -> str | None:
    """The engine's reason, but ``"tool_calls"`` for a normal stop with calls that no named function forced.

    Args:
        reason: the engine's; None while the choice goes on.
        calls: the client was given at least one call.
        options: the request's.
    """
    return "tool_calls" if reason == "stop" and calls and not options.keep_stop else reason
