"""The WebSocket of chat streams: the context first, then an engine's chunks in and OpenAI's out, one for one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from litestar import WebSocket, websocket
from pydantic import BaseModel

from derender_core.errors import InputError
from derender_server.errors import ERROR_TYPES, REQUEST_ID, OverloadedError, describe, error_body
from derender_server.services import Services
from derender_server.streams import ChatStream
from derender_server.usage import check_prompt_tokens
from derender_server.wire.decode import decode_body, decode_value
from derender_server.wire.derender import DerenderChatContext, GenerateStreamResponse
from derender_server.work import DERENDER_INLINE_BYTES, Work

__all__ = ["CLOSE_CODES", "ROUTE", "derender_chat_socket"]

log = logging.getLogger("derender")
encoder = msgspec.json.Encoder()

ROUTE = "/v1/chat/completions/derender/ws"
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

LONGEST_REASON = 123
"""Bytes of a close frame's reason."""

CHUNK = "generate_chunk"

NOT_JSON, WRONG, TOO_LATE, TOO_LARGE, FAILED, OVERLOADED = 1003, 1007, 1008, 1009, 1011, 1013
CLOSE_CODES = {
    NOT_JSON: "a message is not a JSON object",
    WRONG: "a message is JSON, but not what was expected; the error names the field",
    TOO_LATE: "the first message did not come within --body-timeout",
    TOO_LARGE: "a message is longer than --body-limit",
    FAILED: "a parser or the server failed",
    1012: "the server ends",
    OVERLOADED: "the server is overloaded; try again later",
}
"""Why the server closes a connection."""


class MessageError(Exception):
    """A message that nothing can be done with.

    Args:
        code: that the connection is closed with.
        status: of the error body.
        message: of the error body.
    """

    def __init__(self, code: int, status: int, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class ChatSocket:
    """One connection.

    Args:
        socket: the connection.
    """

    def __init__(self, socket: WebSocket[Any, Any, Any]) -> None:
        state = socket.app.state
        services: Services = state.services
        self._socket, self._services = socket, services
        self._work: Work = state.work
        self._max_bytes: int = state.body_limits.max_bytes
        self._seconds: float = state.body_limits.seconds
        self._stream: ChatStream | None = None
        self._prompt = 0
        self._resumed = False
        self._counted_from: int | None = None

    async def serve(self) -> None:
        """Answer messages until the connection ends."""
        await self._socket.accept()
        try:
            message = await self._first()
            if message is None:
                return
            await self._run(self._begin, message)
            while (message := await self._receive()) is not None:
                await self._send(await self._run(self._push, message))
        except OSError:
            pass  # the client is gone
        except Exception as error:  # all that an HTTP route would answer with an error
            await self._fail(error)
        finally:
            self._services.meter.reasoned(self._reasoning())

    async def _first(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._receive()
        except TimeoutError as error:
            text = f"The first message did not arrive within {self._seconds:g} seconds (--body-timeout)"
            raise MessageError(TOO_LATE, 408, text) from error

    async def _receive(self) -> bytes | None:
        """A message; None when the client or the server has ended the connection."""
        event: Any = await self._socket.receive()
        if event["type"] != "websocket.receive":
            return None
        text = event.get("text")
        data: bytes = event.get("bytes") or b"" if text is None else text.encode()
        if len(data) > self._max_bytes:  # most servers are told to refuse it before
            raise MessageError(TOO_LARGE, 413, f"The message is longer than {self._max_bytes} bytes (--body-limit)")
        return data

    async def _send(self, body: bytes) -> None:
        event: Any = {"type": "websocket.send", "text": body.decode()}
        await self._socket.send(event)

    async def _run(self, step: Callable[[bytes], T], message: bytes) -> T:
        with self._work.counted():
            return await self._work.step(partial(step, message), len(message), DERENDER_INLINE_BYTES)

    def _begin(self, message: bytes) -> None:
        """Take in the context.

        Raises:
            InputError: it is wrong; names the field.
        """
        context = _decoded(message, DerenderChatContext)
        chat = self._services.chat
        self._services.model.resolve_name(context.model)
        check_prompt_tokens(context.prompt_tokens)
        request, _ = chat.prepare(context.chat_request)
        request.limits.check_ids(context.prompt_token_ids, "prompt_token_ids")
        stream = ChatStream(chat, context.chat_request, context.prompt_token_ids, context.prompt_tokens, context.model)
        if context.stream_state is not None:
            if context.chat_request is not None and (context.chat_request.n or 1) > 1:
                raise InputError("stream_state: only a stream of one choice can be taken over", "stream_state")
            stream.resume({0: context.stream_state})
            self._resumed = True
        self._stream, self._prompt = stream, len(context.prompt_token_ids or ())

    def _push(self, message: bytes) -> bytes:
        """OpenAI's chunk for the engine's.

        Raises:
            InputError: the engine's is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        assert self._stream is not None
        try:
            chunk = _decoded(message, GenerateStreamResponse)
        except InputError as error:
            if error.param is None:
                raise
            raise InputError(f"{CHUNK}.{error}", f"{CHUNK}.{error.param}") from error
        body = self._stream.push(chunk)
        self._count(chunk, body)
        return encoder.encode(body)

    def _count(self, chunk: GenerateStreamResponse, body: dict[str, Any]) -> None:
        """Metrics, as of the HTTP route."""
        meter = self._services.meter
        if self._stream is not None and self._counted_from is None:
            # What came before a stream was taken over was counted where it was derendered.
            self._counted_from = self._stream.reasoning_tokens if self._resumed else 0
            if not self._resumed:
                meter.began("chat", self._prompt or len(chunk.prompt_token_ids or ()))
        meter.streamed("chat", sum(len(choice.token_ids or ()) for choice in chunk.choices), [body])

    def _reasoning(self) -> int:
        """Tokens of reasoning that were derendered here."""
        if self._stream is None or self._counted_from is None:
            return 0
        return self._stream.reasoning_tokens - self._counted_from

    async def _fail(self, error: Exception) -> None:
        """Say what is wrong, and close."""
        code, status, message, param = _described(error)
        services = self._services
        request_id = self._socket.scope["state"].get(REQUEST_ID)
        if code == FAILED:
            log.error("%s failed, request %s", ROUTE, request_id, exc_info=error)
            services.metrics.count_parser_errors()
        services.metrics.errors.labels(ROUTE, ERROR_TYPES[status]).inc()
        with suppress(OSError):
            await self._send(encoder.encode(error_body(status, message, param)))
            await self._socket.close(code, message.encode()[:LONGEST_REASON].decode(errors="ignore"))


def _decoded(message: bytes, model: type[M]) -> M:
    """The message.

    Raises:
        MessageError: it is not a JSON object.
        InputError: a field is wrong; names it.
    """
    try:
        return decode_body(message, model)
    except InputError as error:
        if error.param is None and not _is_object(message):
            raise MessageError(NOT_JSON, 400, str(error).replace("the body", "the message")) from error
        raise


def _is_object(message: bytes) -> bool:
    try:
        return isinstance(decode_value(message), dict)
    except InputError:
        return False


def _described(error: Exception) -> tuple[int, int, str, str | None]:
    """Close code, and status, message and ``param`` of the error body."""
    if isinstance(error, MessageError):
        return error.code, error.status, str(error), None
    status, message, param = describe(error)
    if isinstance(error, OverloadedError):
        return OVERLOADED, status, message, param
    return (FAILED if status >= 500 else WRONG), status, message, param


@websocket(ROUTE)
async def derender_chat_socket(socket: WebSocket[Any, Any, Any]) -> None:
    """Turn the chunks of an engine into chat completion chunks, the state kept by the connection."""
    await ChatSocket(socket).serve()
