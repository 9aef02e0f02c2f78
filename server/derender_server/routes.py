"""The routes. Each hands a body to a service; ``opt`` names the models of the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, get, post, route
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp

from derender_server.answer import JsonAnswer
from derender_server.bodies import read_json
from derender_server.errors import OverloadedError
from derender_server.services import Services
from derender_server.wire import (
    api_answers,
    api_derender,
    derender,
    generate,
    messages_api,
    requests,
    responses,
    responses_api,
)
from derender_server.work import DERENDER_INLINE_BYTES, RENDER_INLINE_BYTES

__all__ = ["HANDLERS"]

AnyRequest = Request[Any, Any, Any]


@post(
    "/v1/chat/completions/derender",
    status_code=200,
    opt={
        "body": (derender.DerenderChatRequest, derender.DerenderChatStreamRequest),
        "answer": (responses.ChatCompletion, responses.DerenderChatStreamResponse),
    },
)
async def derender_chat(request: AnyRequest) -> ASGIApp:
    """Turn an engine's output into a chat completion, or one of its chunks into a chat completion chunk."""
    return await _answer(request, _services(request).derender_chat, DERENDER_INLINE_BYTES)


@post(
    "/v1/completions/derender",
    status_code=200,
    opt={
        "body": (derender.DerenderCompletionRequest, derender.DerenderCompletionStreamRequest),
        "answer": (responses.Completion, responses.DerenderCompletionStreamResponse),
    },
)
async def derender_completion(request: AnyRequest) -> ASGIApp:
    """Turn an engine's outputs into a text completion, or one of its chunks into a completion chunk."""
    return await _answer(request, _services(request).derender_completion, DERENDER_INLINE_BYTES)


@post(
    "/v1/responses/derender",
    status_code=200,
    opt={
        "body": (api_derender.DerenderResponsesRequest, api_derender.DerenderResponsesStreamRequest),
        "answer": (api_answers.Response, api_answers.DerenderResponsesStreamResponse),
    },
)
async def derender_responses(request: AnyRequest) -> ASGIApp:
    """Turn an engine's output into an OpenAI Response, or one of its chunks into events."""
    return await _answer(request, _services(request).derender_responses, DERENDER_INLINE_BYTES)


@post(
    "/v1/messages/derender",
    status_code=200,
    opt={
        "body": (api_derender.DerenderMessagesRequest, api_derender.DerenderMessagesStreamRequest),
        "answer": (api_answers.Message, api_answers.DerenderMessagesStreamResponse),
    },
)
async def derender_messages(request: AnyRequest) -> ASGIApp:
    """Turn an engine's output into an Anthropic Message, or one of its chunks into events."""
    return await _answer(request, _services(request).derender_messages, DERENDER_INLINE_BYTES)


@post(
    "/parse",
    status_code=200,
    opt={"body": (api_derender.ParseRequest,), "answer": (api_answers.ParseResponse,)},
)
async def parse(request: AnyRequest) -> ASGIApp:
    """Turn a text that is already decoded into a message."""
    return await _answer(request, _services(request).parse, DERENDER_INLINE_BYTES)


@post(
    "/v1/chat/completions/render",
    status_code=200,
    opt={"body": (requests.ChatCompletionRequest,), "answer": (generate.GenerateRequest,)},
)
async def render_chat(request: AnyRequest) -> ASGIApp:
    """Turn a chat request into a request for an engine that takes token ids."""
    return await _answer(request, partial(_services(request).render_chat, request_id=_request_id(request)))


@post(
    "/v1/completions/render",
    status_code=200,
    opt={"body": (requests.CompletionRequest,), "answer": (list[generate.GenerateRequest],)},
)
async def render_completion(request: AnyRequest) -> ASGIApp:
    """Turn a completion request into requests for an engine that takes token ids, one for each prompt."""
    return await _answer(request, partial(_services(request).render_completion, request_id=_request_id(request)))


@post(
    "/v1/responses/render",
    status_code=200,
    opt={"body": (responses_api.ResponsesRequest,), "answer": (generate.GenerateRequest,)},
)
async def render_responses(request: AnyRequest) -> ASGIApp:
    """Turn an OpenAI Responses request into a request for an engine that takes token ids."""
    return await _answer(request, partial(_services(request).render_responses, request_id=_request_id(request)))


@post(
    "/v1/messages/render",
    status_code=200,
    opt={"body": (messages_api.MessagesRequest,), "answer": (generate.GenerateRequest,)},
)
async def render_messages(request: AnyRequest) -> ASGIApp:
    """Turn an Anthropic Messages request into a request for an engine that takes token ids."""
    return await _answer(request, partial(_services(request).render_messages, request_id=_request_id(request)))


@post(
    "/tokenize",
    status_code=200,
    opt={"body": (requests.TokenizeRequest,), "answer": (responses.TokenizeResponse,)},
)
async def tokenize(request: AnyRequest) -> ASGIApp:
    """Token ids of a text, or of messages."""
    return await _answer(request, _services(request).tokenize)


@post(
    "/detokenize",
    status_code=200,
    opt={"body": (requests.DetokenizeRequest,), "answer": (responses.DetokenizeResponse,)},
)
async def detokenize(request: AnyRequest) -> ASGIApp:
    """The text of token ids."""
    return await _answer(request, _services(request).detokenize)


@get("/v1/models", opt={"answer": (responses.ModelList,)})
async def models(request: AnyRequest) -> Response[bytes]:
    """The models served here."""
    return _json(_services(request).models())


@get("/health", opt={"open": True})
async def health() -> Response[bytes]:
    """Answers 200 while the process lives."""
    return Response(b"", media_type=MediaType.TEXT)


@get("/ready", opt={"open": True})
async def ready(request: AnyRequest) -> Response[bytes]:
    """Answers 200 while the process takes requests, and 503 when it ends or cannot work any more."""
    if request.app.state.work.is_stuck:
        raise OverloadedError("Too many threads are stuck in parsers. This process should be restarted.")
    return Response(b"", media_type=MediaType.TEXT)


@route("/ping", http_method=["GET", "POST"], status_code=200)
async def ping() -> Response[bytes]:
    """Answers 200 while the process lives."""
    return Response(b"", media_type=MediaType.TEXT)


@get("/version", opt={"answer": (responses.VersionResponse,)})
async def version(request: AnyRequest) -> Response[bytes]:
    """The version of this server."""
    return _json({"version": _services(request).version})


@get("/load", opt={"answer": (responses.LoadResponse,)})
async def load(request: AnyRequest) -> Response[bytes]:
    """How many requests are being worked on, and how busy the engines of the gateway are."""
    state = request.app.state
    engines = [] if state.gateway is None else state.gateway.engines.report()
    return _json({"server_load": state.work.active, **({"engines": engines} if engines else {})})


@get("/metrics")
async def metrics(request: AnyRequest) -> Response[bytes]:
    """Counters for Prometheus."""
    body, kind = await asyncio.to_thread(_services(request).metrics.text, request.headers.get("accept", ""))
    return Response(body, media_type=kind)


HANDLERS: list[BaseRouteHandler] = [
    derender_chat,
    derender_completion,
    derender_responses,
    derender_messages,
    render_chat,
    render_completion,
    render_responses,
    render_messages,
    parse,
    tokenize,
    detokenize,
    models,
    health,
    ready,
    ping,
    version,
    load,
    metrics,
]


async def _answer(
    request: AnyRequest, work: Callable[[bytes], bytes], inline_bytes: int = RENDER_INLINE_BYTES
) -> ASGIApp:
    """What a service makes of the body."""
    state = request.app.state
    body = await read_json(request, state.body_limits)
    return JsonAnswer(await state.work.run(work, body, inline_bytes))


def _json(body: object) -> Response[bytes]:
    return Response(msgspec.json.encode(body), media_type=MediaType.JSON)


def _services(request: AnyRequest) -> Services:
    services: Services = request.app.state.services
    return services


def _request_id(request: AnyRequest) -> str | None:
    return request.headers.get("x-request-id") or None
