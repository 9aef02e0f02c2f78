"""The stream of one engine request."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Self

import aiohttp
import msgspec

from derender_server.gateway.engine import Engine, failure_of
from derender_server.gateway.engine_errors import EngineError
from derender_server.gateway.event_reader import EventReader, EventTooLongError

__all__ = ["EngineStream"]

DONE = b"[DONE]"
LARGEST_EVENT = 16 * 2**20


class _Named(msgspec.Struct):
    request_id: str | None = None


class EngineStream:
    """The events of an engine's stream, as they come. Nothing is read before it is asked for, but for what fits into
    the buffer of the connection; so an engine is as slow as its client.

    Args:
        engine: the engine.
        response: its answer, whose head has come.
        request_id: of the request.
        expected: tokens that are expected of it.
    """

    def __init__(self, engine: Engine, response: aiohttp.ClientResponse, request_id: str, expected: int) -> None:
        self._engine, self._response = engine, response
        self._request_id, self._expected = request_id, expected
        self._reader = EventReader(LARGEST_EVENT)
        self._events: deque[bytes] = deque()
        self._is_first = True
        self._is_done = self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The data of the next event. The stream ends at ``[DONE]``, or where the engine ended it properly.

        Raises:
            EngineError: the engine broke off, was silent for too long, or sent an event that is too long.
        """
        while not self._events:
            if self._is_done:
                raise StopAsyncIteration
            try:
                piece = await self._response.content.readany()
                self._events.extend(self._reader.feed(piece))
            except (aiohttp.ClientError, TimeoutError) as error:
                raise self._failed(failure_of(error)) from error
            except EventTooLongError as error:
                raise self._failed(EngineError(502, "The engine sent an event that is too long")) from error
            if not piece:
                self._is_done = True
        event = self._events.popleft()
        if event == DONE:
            self._is_done = True
            self._events.clear()
            raise StopAsyncIteration
        if self._is_first:
            self._is_first = False
            self._learn_id(event)
        if self._expected:  # an event has a token at least
            self._expected -= 1
            self._engine.outstanding -= 1
        return event

    async def aclose(self) -> None:
        """End the request: at the engine too, if it is still running. Does not wait for the engine."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.end(self._expected)
        if self._is_done:
            self._engine.succeeded()
            self._response.release()
        else:
            self._response.close()
            self._engine.abort(self._request_id)

    def _failed(self, error: EngineError) -> EngineError:
        self._engine.failed()
        return error

    def _learn_id(self, event: bytes) -> None:
        """Engines may make an id of their own from ours, and know the request by that alone."""
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):  # whoever reads the event finds the fault
            self._request_id = msgspec.json.decode(event, type=_Named).request_id or self._request_id
