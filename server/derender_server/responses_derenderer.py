"""Engine outputs as OpenAI Responses and the events of their streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from derender_core.errors import StateError
from derender_server.api_derenderer import ApiDerenderer, ChunkAnswer
from derender_server.deployment import Deployment
from derender_server.prepared import Prepared, PreparedRequests
from derender_server.responses_events import ResponseEvents
from derender_server.responses_items import ending, item_body, response_body, usage_body
from derender_server.responses_request import responses_view_to_chat
from derender_server.stream_state import Envelope, StateCodec
from derender_server.wire.api_derender import (
    DerenderResponsesRequest,
    DerenderResponsesStreamRequest,
    ResponsesRequestView,
    Transcript,
)

__all__ = ["ResponsesDerenderer"]

LARGEST = 2**53


class ResponsesDerenderer:
    """Turns engine outputs into Responses and their events.

    Args:
        deployment: the setup.
    """

    def __init__(self, deployment: Deployment) -> None:
        requests = PreparedRequests(deployment, ResponsesRequestView, "responses_request", responses_view_to_chat)
        self._api = ApiDerenderer(deployment, requests, "responses", id_prefix="resp_", call_prefix="call_")
        self.codec: StateCodec = self._api.codec

    def response(self, request: DerenderResponsesRequest) -> dict[str, Any]:
        """A Response, from an engine's whole response.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        answer = self._api.whole(request, request.responses_request)
        items = [
            item_body(part, text, "completed" if complete else "incomplete", answer.ids)
            for part, text, complete in answer.parts
        ]
        return response_body(
            answer.ids.request_id,
            int(time.time()),
            answer.model,
            request.responses_request,
            finish_reason=answer.finish_reason,
            output=items,
            usage=usage_body(answer.counts),
        )

    def events(self, request: DerenderResponsesStreamRequest) -> dict[str, Any]:
        """``{"events", "stream_state"}``, from an engine's chunk and the state before.

        Raises:
            InputError: the request is wrong; names the field. Also when the chunk closes an item or ends the stream,
                and ``transcript`` is missing.
            StateError: the state was not made here, or not for this configuration.
            ParserError: a parser failed; names it.
        """
        events, envelope = self.advance(request, request.stream_state)
        return {"events": events, "stream_state": self.codec.keep(envelope)}

    def prepare(self, view: ResponsesRequestView | None) -> Prepared:
        """What a request means for its stream, for callers that keep it.

        Raises:
            InputError: the request is missing and needed, or a field is wrong; names it.
        """
        return self._api.prepare(view)

    def advance(
        self,
        request: DerenderResponsesStreamRequest,
        state: Mapping[str, Any] | Envelope | None,
        prepared: Prepared | None = None,
        *,
        transcript: Callable[[], Transcript | None] | None = None,
    ) -> tuple[list[dict[str, Any]], Envelope]:
        """As ``events``, for callers that keep the envelope instead of its state, and what the request means.

        ``transcript`` is asked only when a text must be said again; without it, it is the request's.
        """
        prepared = prepared or self.prepare(request.responses_request)
        envelope, answer = self._api.advance(request, state, prepared)
        if answer is None:
            return [], envelope
        maker = ResponseEvents(
            answer.ids, _number(envelope.api), answer.tracker, transcript or (lambda: request.transcript)
        )
        events = list(_events(answer, maker, request.responses_request, envelope.created))
        self._api.keep(envelope, answer, q=maker.number)
        return events, envelope


def _events(
    answer: ChunkAnswer, maker: ResponseEvents, view: ResponsesRequestView | None, created: int
) -> Iterator[dict[str, Any]]:
    about = partial(response_body, answer.ids.request_id, created, answer.model, view)
    if answer.first:
        for kind in ("response.created", "response.in_progress"):
            yield maker.numbered(kind, response=about(finish_reason=None, output=(), usage=None))
    reason = answer.output.finish_reason
    for change in answer.tracker.push(answer.output.events, reason):
        yield from maker.of(change)
    if reason is not None:
        status, _ = ending(reason)
        usage = usage_body(answer.counts)
        response = about(finish_reason=reason, output=maker.output(), usage=usage)
        yield maker.numbered(f"response.{status}", response=response)


def _number(api: dict[str, Any] | None) -> int:
    number = (api or {}).get("q", 0)
    if type(number) is not int or not 0 <= number < LARGEST:
        raise StateError("stream_state.a.q must be a count; send the state back as it was given", "stream_state.a.q")
    return number
