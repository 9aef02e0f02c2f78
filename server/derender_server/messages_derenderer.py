"""Engine outputs as Anthropic Messages and the events of their streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from derender_server.api_derenderer import ApiDerenderer, ChunkAnswer
from derender_server.api_output import TokenCounts, tool_input
from derender_server.chat import CallIds
from derender_server.deployment import Deployment
from derender_server.messages_request import messages_view_to_chat
from derender_server.parts import Closed, Grown, Opened, Part, PartChange
from derender_server.prepared import Prepared, PreparedRequests
from derender_server.stream_state import Envelope, StateCodec
from derender_server.wire.api_derender import (
    DerenderMessagesRequest,
    DerenderMessagesStreamRequest,
    MessagesRequestView,
)

__all__ = ["MessagesDerenderer"]

STOP_REASONS: Mapping[str, str] = {"stop": "end_turn", "content_filter": "refusal"}
CUT = "max_tokens"  # the API has no reason for outputs that were cut by anything else


class MessagesDerenderer:
    """Turns engine outputs into Messages and their events. No event repeats a text, so the state stays small.

    Args:
        deployment: the setup.
    """

    def __init__(self, deployment: Deployment) -> None:
        requests = PreparedRequests(deployment, MessagesRequestView, "messages_request", messages_view_to_chat)
        self._api = ApiDerenderer(deployment, requests, "messages", id_prefix="msg_", call_prefix="toolu_")
        self.codec: StateCodec = self._api.codec
        self._counts_reasoning = deployment.reasoning_parser is not None

    def message(self, request: DerenderMessagesRequest) -> dict[str, Any]:
        """A Message, from an engine's whole response.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        answer = self._api.whole(request, request.messages_request)
        calls = any(part.kind == "call" for part, _, _ in answer.parts)
        return {
            **_message(answer.ids.request_id, answer.model),
            "content": [_block(part, text, answer.ids) for part, text, _ in answer.parts],
            **_ending(answer.finish_reason, answer.stop_reason, calls=calls),
            "usage": self._usage(answer.counts),
        }

    def events(self, request: DerenderMessagesStreamRequest) -> dict[str, Any]:
        """``{"events", "stream_state"}``, from an engine's chunk and the state before.

        Raises:
            InputError: the request is wrong; names the field.
            StateError: the state was not made here, or not for this configuration.
            ParserError: a parser failed; names it.
        """
        events, envelope = self.advance(request, request.stream_state)
        return {"events": events, "stream_state": self.codec.keep(envelope)}

    def prepare(self, view: MessagesRequestView | None) -> Prepared:
        """What a request means for its stream, for callers that keep it.

        Raises:
            InputError: the request is missing and needed, or a field is wrong; names it.
        """
        return self._api.prepare(view)

    def advance(
        self,
        request: DerenderMessagesStreamRequest,
        state: Mapping[str, Any] | Envelope | None,
        prepared: Prepared | None = None,
    ) -> tuple[list[dict[str, Any]], Envelope]:
        """As ``events``, for callers that keep the envelope instead of its state, and what the request means."""
        prepared = prepared or self.prepare(request.messages_request)
        envelope, answer = self._api.advance(request, state, prepared)
        if answer is None:
            return [], envelope
        events = list(self._events(answer))
        self._api.keep(envelope, answer)
        return events, envelope

    def _events(self, answer: ChunkAnswer) -> Iterator[dict[str, Any]]:
        output, tracker = answer.output, answer.tracker
        if answer.first:
            message = {
                **_message(answer.ids.request_id, answer.model),
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "stop_details": None,
                "usage": _input_usage(answer.counts) | {"output_tokens": 0},
            }
            yield {"type": "message_start", "message": message}
        for change in tracker.push(output.events, output.finish_reason):
            yield from _block_events(change, answer.ids)
        if output.finish_reason is not None:
            delta = _ending(output.finish_reason, output.stop_reason, calls=tracker.calls > 0)
            yield {"type": "message_delta", "delta": delta, "usage": self._usage(answer.counts)}
            yield {"type": "message_stop"}

    def _usage(self, counts: TokenCounts) -> dict[str, Any]:
        body = _input_usage(counts) | {"output_tokens": counts.output}
        if self._counts_reasoning:
            body["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
        return body


def _input_usage(counts: TokenCounts) -> dict[str, Any]:
    body = {"input_tokens": counts.prompt - counts.cached}
    return body | {"cache_read_input_tokens": counts.cached} if counts.cached else body


def _message(request_id: str, model: str) -> dict[str, Any]:
    return {"id": request_id, "type": "message", "role": "assistant", "model": model}


def _ending(finish_reason: str, stop_reason: int | str | None, *, calls: bool) -> dict[str, Any]:
    """Why the answer ended. Calls go before a stop string, because clients act on ``tool_use``."""
    reason = STOP_REASONS.get(finish_reason, CUT)
    sequence = stop_reason if finish_reason == "stop" and isinstance(stop_reason, str) else None
    if finish_reason == "stop" and (calls or sequence is not None):
        reason = "tool_use" if calls else "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": sequence, "stop_details": None}


def _signature(part: Part, ids: CallIds) -> str:
    """Clients drop thinking without a signature when they send a turn back. Ours says nothing and is never checked."""
    return ids.digest("signature", part.index)


def _block(part: Part, text: str, ids: CallIds) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": text}
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": text, "signature": _signature(part, ids)}
    return {"type": "tool_use", "id": ids.of(part.call, part.id), "name": part.name, "input": tool_input(text)}


def _block_events(change: PartChange, ids: CallIds) -> Iterator[dict[str, Any]]:
    part = change.part
    if isinstance(change, Opened):
        block = _block(part, "", ids)
        if part.kind == "reasoning":
            block["signature"] = ""
        yield {"type": "content_block_start", "index": part.index, "content_block": block}
    elif isinstance(change, Grown):
        kind, field = {
            "text": ("text_delta", "text"),
            "reasoning": ("thinking_delta", "thinking"),
            "call": ("input_json_delta", "partial_json"),
        }[part.kind]
        yield _delta(part, {"type": kind, field: change.text})
    elif isinstance(change, Closed):
        if part.kind == "reasoning":
            yield _delta(part, {"type": "signature_delta", "signature": _signature(part, ids)})
        yield {"type": "content_block_stop", "index": part.index}


def _delta(part: Part, delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": part.index, "delta": delta}
