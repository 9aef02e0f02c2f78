"""All engines of a process: requests are routed, sent again where that is safe, and ended with their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from derender_server.gateway.engine import Engine, NotBegunError, failure_of
from derender_server.gateway.engine_errors import EngineError
from derender_server.gateway.engine_options import EngineOptions
from derender_server.gateway.engine_stream import EngineStream
from derender_server.gateway.routing import expected_tokens, in_order
from derender_server.wire.generate import GenerateRequest

__all__ = ["Engines"]

T = TypeVar("T")

READ_BUFFER = 16384
"""Bytes of a stream that wait to be read; at twice as many the engine's connection is paused."""

PREFILL_PARAMS = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""``kv_transfer_params`` with which vLLM's connectors are told that another engine will decode."""


class _Prefilled(msgspec.Struct):
    kv_transfer_params: dict[str, Any] | None = None


class Engines:
    """The engines.

    Args:
        options: which they are and how they are asked.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._session: aiohttp.ClientSession | None = None
        self._engines: tuple[Engine, ...] = ()
        self._prefills: tuple[Engine, ...] = ()
        self._checks: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open what is needed, on the loop that will serve."""
        options = self.options
        headers = {"authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        self._session = session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=options.connect_timeout, sock_read=options.read_timeout
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
        )
        self._engines = tuple(Engine(url, session) for url in options.urls)
        self._prefills = tuple(Engine(url, session) for url in options.prefill_urls)
        self._checks = asyncio.create_task(self._check_for_ever())

    async def close(self) -> None:
        """End what is left, and close all connections."""
        if self._checks is not None:
            self._checks.cancel()
            await asyncio.wait([self._checks])
        for engine in (*self._engines, *self._prefills):
            await engine.aborted()
        if self._session is not None:
            await self._session.close()

    def report(self) -> list[dict[str, Any]]:
        """For ``/load``: each engine, and how busy it is."""
        engines = [engine.report() | {"role": "generate"} for engine in self._engines]
        return engines + [engine.report() | {"role": "prefill"} for engine in self._prefills]

    async def generate(self, request: GenerateRequest) -> bytes:
        """The JSON of a whole response. Being cancelled ends the request at the engine.

        Raises:
            EngineError: there is none; says why.
        """
        request = await self._prefilled(request)
        return await self._ask(self._engines, request, self._whole)

    async def stream(self, request: GenerateRequest) -> EngineStream:
        """A stream, once an engine has begun it. It must be closed.

        Raises:
            EngineError: there is none; says why.
        """
        request = await self._prefilled(request)
        return await self._ask(self._engines, request, self._begin)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        engines: Sequence[Engine],
        request: GenerateRequest,
        how: Callable[[Engine, GenerateRequest, bytes], Awaitable[T]],
    ) -> T:
        """Ask one engine after the other until one has begun."""
        body = request.model_dump_json().encode()
        errors: list[EngineError] = []
        for engine in in_order(engines, request, self.options.routing)[: 1 + self.options.retries]:
            try:
                return await how(engine, request, body)
            except NotBegunError as error:
                errors.append(error.error)
        # What an engine said tells more than that another one is not there.
        raise next((error for error in errors if error.status != 503), errors[0])

    @staticmethod
    async def _whole(engine: Engine, request: GenerateRequest, body: bytes) -> bytes:
        expected = expected_tokens(request)
        engine.begin(expected)
        try:
            response = await engine.post(body)
            async with response:
                answer = await response.read()
            engine.succeeded()
        except asyncio.CancelledError:
            engine.abort(request.request_id)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            engine.failed()
            raise failure_of(error) from error
        finally:
            engine.end(expected)
        return answer

    @staticmethod
    async def _begin(engine: Engine, request: GenerateRequest, body: bytes) -> EngineStream:
        expected = expected_tokens(request)
        engine.begin(expected)
        try:
            response = await engine.post(body)
            if response.content_type != "text/event-stream":
                response.close()
                engine.failed()
                raise EngineError(502, f"The engine sent {response.content_type}, not a stream of events")
        except BaseException as error:
            engine.end(expected)
            if isinstance(error, asyncio.CancelledError):
                engine.abort(request.request_id)
            raise
        return EngineStream(engine, response, request.request_id, expected)

    async def _prefilled(self, request: GenerateRequest) -> GenerateRequest:
        """The request, with its prompt run on another engine where there are such.

        Raises:
            EngineError: no engine could run it.
        """
        if not self._prefills:
            return request
        sampling = request.sampling_params.model_copy(
            update={"n": 1, "max_tokens": 1, "min_tokens": 1, "logprobs": None, "prompt_logprobs": None}
        )
        changed = {"sampling_params": sampling, "stream": False, "stream_options": None}
        prefill = request.model_copy(update=changed | {"kv_transfer_params": PREFILL_PARAMS})
        answer = await self._ask(self._prefills, prefill, self._whole)
        try:
            params = msgspec.json.decode(answer, type=_Prefilled).kv_transfer_params
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            params = None
        if not params:
            raise EngineError(502, "The prefill engine's answer has no kv_transfer_params to hand on")
        return request.model_copy(update={"kv_transfer_params": params})

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.gather(*(engine.check() for engine in (*self._engines, *self._prefills)))
            await asyncio.sleep(self.options.health_interval)
