"""The four APIs as the gateway serves them: each is rendered and derendered by the services of its own routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core.errors import InputError
from derender_server.api_streams import MessagesStream, ResponsesStream
from derender_server.gateway.answers import ChunkEvents, MessageEvents, ResponseEvents, StreamEvents
from derender_server.meter import Api
from derender_server.services import Services
from derender_server.streams import ChatStream, CompletionStream, StreamService
from derender_server.wire.api_derender import (
    DerenderMessagesRequest,
    DerenderResponsesRequest,
    MessagesRequestView,
    ResponsesRequestView,
)
from derender_server.wire.decode import decode_body, decode_value
from derender_server.wire.derender import (
    ChatRequestView,
    CompletionRequestView,
    DerenderChatRequest,
    DerenderCompletionRequest,
    GenerateResponse,
    GenerateStreamResponse,
)
from derender_server.wire.generate import GenerateRequest
from derender_server.wire.sampling_fields import StreamOptions

__all__ = ["AnyStream", "Asked", "GatewayApi", "gateway_apis", "push_to"]

LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete")

AnyStream = ChatStream | CompletionStream | ResponsesStream | MessagesStream


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asked for.

    Args:
        requests: for the engine, one for each prompt. They name no stop strings, because engines here see no text.
        view: what derendering reads of the client's request.
        streams: the answer is to be streamed.
        stops: there are stop strings.
        usage: what the client wants to know of tokens while it is streamed.
    """

    requests: list[GenerateRequest]
    view: Any
    streams: bool
    stops: bool
    usage: StreamOptions

    @classmethod
    def of(cls, requests: list[GenerateRequest], view: Any) -> Asked:
        """What rendered requests ask for."""
        first = requests[0]
        asked = cls(
            requests, view, first.stream, bool(first.sampling_params.stop), first.stream_options or StreamOptions()
        )
        for request in requests:
            request.sampling_params.stop = []
            # A stop string ends a stream at once; a whole response would have to be waited for.
            request.stream = asked.streams or asked.stops
            request.stream_options = StreamOptions(include_usage=True) if request.stream else None
        return asked


@dataclass(frozen=True)
class GatewayApi:
    """One API.

    Args:
        name: of the API.
        route: its path.
        view: what derendering reads of its requests.
        param: what the derender route calls the request.
        service: derenders.
        render: a request's plain value, and the id it gets unless it is None, to requests for the engine.
        whole: what was asked and the engine's responses, one for each request, to the answer.
        stream: derenders the chunks of an engine request.
        events: the events of a streamed answer, from what was asked and its streams.
    """

    name: Api
    route: str
    view: type[Any]
    param: str
    service: StreamService
    render: Callable[[Any, str | None], list[GenerateRequest]]
    whole: Callable[[Asked, Sequence[GenerateResponse]], dict[str, Any]]
    stream: Callable[..., AnyStream]
    events: Callable[[Asked, Sequence[Any]], StreamEvents]

    def read(self, body: bytes, request_id: str) -> Asked:
        """A request, rendered, and checked as far as it can be before the engine is asked.

        Args:
            body: the client's JSON.
            request_id: the random part of ids, unless the request brings its own.

        Raises:
            InputError: a field is wrong; names it.
            ParserError: a parser failed.
        """
        value = decode_value(body)
        brings_id = isinstance(value, dict) and value.get("request_id")
        requests = self.render(value, None if brings_id else request_id)
        view = decode_body(body, self.view)
        try:
            self.service.prepare(view)
        except InputError as error:
            prefix = f"{self.param}."
            raise InputError(
                str(error).replace(prefix, ""), (error.param or "").removeprefix(prefix) or None
            ) from error
        return Asked.of(requests, view)

    def open(self, asked: Asked, at: int) -> AnyStream:
        """The stream of an engine request."""
        return self.stream(self.service, asked.view, asked.requests[at].token_ids, None, asked.view.model)


def push_to(stream: AnyStream) -> Callable[[GenerateStreamResponse], tuple[list[dict[str, Any]], bool]]:
    """An engine's chunk to the OpenAI chunk or the events, and whether its choice has finished."""
    if isinstance(stream, ChatStream | CompletionStream):

        def push_chunk(chunk: GenerateStreamResponse) -> tuple[list[dict[str, Any]], bool]:
            body = stream.push(chunk)
            return [body], body["choices"][0]["finish_reason"] is not None

        return push_chunk

    def push_events(chunk: GenerateStreamResponse) -> tuple[list[dict[str, Any]], bool]:
        events = stream.push(chunk)
        return events, bool(events) and events[-1]["type"] in LAST_EVENTS

    return push_events


def gateway_apis(services: Services) -> Mapping[Api, GatewayApi]:
    """All APIs, with the services of their routes."""
    renderer = services.renderer
    return {
        "chat": GatewayApi(
            "chat",
            "/v1/chat/completions",
            ChatRequestView,
            "chat_request",
            services.chat,
            lambda value, request_id: [renderer.render_chat(value, request_id=request_id)],
            lambda asked, responses: services.chat.completion(
                DerenderChatRequest.model_construct(chat_request=asked.view, **_one(asked, responses))
            ),
            ChatStream,
            _chunk_events,
        ),
        "completions": GatewayApi(
            "completions",
            "/v1/completions",
            CompletionRequestView,
            "completion_request",
            services.completions,
            lambda value, request_id: renderer.render_completion(value, request_id=request_id),
            lambda asked, responses: services.completions.completion(_completion_request(asked, responses)),
            CompletionStream,
            _chunk_events,
        ),
        "responses": GatewayApi(
            "responses",
            "/v1/responses",
            ResponsesRequestView,
            "responses_request",
            services.responses,
            lambda value, request_id: [renderer.render_responses(value, request_id=request_id)],
            lambda asked, responses: services.responses.response(
                DerenderResponsesRequest.model_construct(responses_request=asked.view, **_one(asked, responses))
            ),
            ResponsesStream,
            lambda asked, streams: ResponseEvents(streams[0]),  # noqa: ARG005 - chunks need what was asked
        ),
        "messages": GatewayApi(
            "messages",
            "/v1/messages",
            MessagesRequestView,
            "messages_request",
            services.messages,
            lambda value, request_id: [renderer.render_messages(value, request_id=request_id)],
            lambda asked, responses: services.messages.message(
                DerenderMessagesRequest.model_construct(messages_request=asked.view, **_one(asked, responses))
            ),
            MessagesStream,
            lambda asked, streams: MessageEvents(),  # noqa: ARG005
        ),
    }


def _one(asked: Asked, responses: Sequence[GenerateResponse]) -> dict[str, Any]:
    """What the one-shot requests of the APIs with one prompt have in common."""
    prompt = asked.requests[0].token_ids
    return {
        "generate_response": responses[0],
        "model": asked.view.model,
        "prompt_tokens": len(prompt),
        "prompt_token_ids": prompt,
    }


def _completion_request(asked: Asked, responses: Sequence[GenerateResponse]) -> DerenderCompletionRequest:
    prompts = [request.token_ids for request in asked.requests]
    return DerenderCompletionRequest.model_construct(
        generate_responses=list(responses),
        model=asked.view.model,
        prompt_tokens=[len(prompt) for prompt in prompts],
        prompt_token_ids=prompts,
        completion_request=asked.view,
    )


def _chunk_events(asked: Asked, streams: Sequence[ChatStream | CompletionStream]) -> ChunkEvents:
    first = asked.requests[0]
    usage = bool(asked.usage.include_usage)
    return ChunkEvents(streams, first.request_id, first.sampling_params.n, wants_usage=usage)
