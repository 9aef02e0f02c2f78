"""The routes of the gateway; ``opt`` names the models of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp

from derender_server.bodies import read_json
from derender_server.errors import REQUEST_ID
from derender_server.gateway.messages_errors import answer_messages_error
from derender_server.meter import Api
from derender_server.wire import api_answers, messages_api, requests, responses, responses_api

__all__ = ["GATEWAY_HANDLERS"]

AnyRequest = Request[Any, Any, Any]


@post(
    "/v1/chat/completions",
    status_code=200,
    opt={
        "body": (requests.ChatCompletionRequest,),
        "answer": (responses.ChatCompletion,),
        "event": (responses.ChatCompletionChunk,),
    },
)
async def chat_completions(request: AnyRequest) -> ASGIApp:
    """OpenAI chat completion, by an engine that takes token ids; with `stream: true` as server-sent events."""
    return await _answer(request, "chat")


@post(
    "/v1/completions",
    status_code=200,
    opt={"body": (requests.CompletionRequest,), "answer": (responses.Completion,), "event": (responses.Completion,)},
)
async def completions(request: AnyRequest) -> ASGIApp:
    """OpenAI text completion, by an engine that takes token ids; with `stream: true` as server-sent events."""
    return await _answer(request, "completions")


@post(
    "/v1/responses",
    status_code=200,
    opt={
        "body": (responses_api.ResponsesRequest,),
        "answer": (api_answers.Response,),
        "event": (api_answers.ResponseEvent,),
    },
)
async def create_response(request: AnyRequest) -> ASGIApp:
    """OpenAI Response, by an engine that takes token ids; with `stream: true` as server-sent events."""
    return await _answer(request, "responses")


@post(
    "/v1/messages",
    status_code=200,
    opt={
        "body": (messages_api.MessagesRequest,),
        "answer": (api_answers.Message,),
        "event": (api_answers.MessageEvent,),
    },
    exception_handlers={HTTPException: answer_messages_error, Exception: answer_messages_error},
)
async def create_message(request: AnyRequest) -> ASGIApp:
    """Anthropic Message, by an engine that takes token ids; with `stream: true` as server-sent events."""
    return await _answer(request, "messages")


GATEWAY_HANDLERS: list[BaseRouteHandler] = [chat_completions, completions, create_response, create_message]


async def _answer(request: AnyRequest, api: Api) -> ASGIApp:
    state = request.app.state
    body = await read_json(request, state.body_limits)
    answer: ASGIApp = state.gateway.answer(api, body, request.scope["state"][REQUEST_ID])
    return answer
