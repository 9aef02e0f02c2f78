"""The gateway: a client's request in, an answer out, with an engine asked in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec
from litestar.types import Receive, Scope, Send

from derender_core.errors import InputError
from derender_server.answer import JsonAnswer
from derender_server.errors import OverloadedError, describe, error_body
from derender_server.gateway.apis import Asked, GatewayApi, gateway_apis, push_to
from derender_server.gateway.client_watch import ClientGoneError, ClientWatch
from derender_server.gateway.engine_chunks import EngineChunks, EngineSource
from derender_server.gateway.engine_errors import EngineError
from derender_server.gateway.event_sink import EventSink
from derender_server.gateway.run import CollectingRun, Piece, Run, read_response, total_usage, unusable
from derender_server.gateway.together import together
from derender_server.meter import Api
from derender_server.services import Services
from derender_server.wire.derender import GenerateResponse
from derender_server.work import DERENDER_INLINE_BYTES, RENDER_INLINE_BYTES, Work

__all__ = ["Gateway"]

log = logging.getLogger("derender")
encoder = msgspec.json.Encoder()

BYTES_PER_TOKEN = 4  # of JSON

REST_SECONDS = 1.0
"""How long an engine may take to end its stream when all choices have finished. Clients wait for it."""


class Gateway:
    """Renders, lets an engine generate, and derenders.

    Args:
        services: those of the render and derender routes.
        engines: where answers come from.
        work: where rendering and derendering run.
        keep_alive: seconds of silence after which a stream says that it still lives.
    """

    def __init__(self, services: Services, engines: EngineSource, work: Work, keep_alive: float) -> None:
        self.services, self.engines, self.work, self.keep_alive = services, engines, work, keep_alive
        self._apis = gateway_apis(services)

    def answer(self, api: Api, body: bytes, request_id: str) -> Answer:
        """The answer to a request.

        Args:
            api: of the request.
            body: the client's JSON.
            request_id: the random part of the answer's id, unless the request brings its own.
        """
        return Answer(self, self._apis[api], body, request_id)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as an ASGI application that has still to find it.

    What goes wrong before it begins is raised; what goes wrong later is told in the stream.
    """

    gateway: Gateway
    api: GatewayApi
    body: bytes
    request_id: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application.

        Raises:
            InputError: a field of the request is wrong; names it.
            EngineError: no engine answered; says why.
            ParserError: a parser failed; names it.
            OverloadedError: too much is waiting.
        """
        with self.gateway.work.counted(), suppress(ClientGoneError):
            async with ClientWatch(receive):
                asked = await self._read()
                if asked.streams:
                    await self._stream(asked, send)
                else:
                    await JsonAnswer(await self._whole(asked))(scope, receive, send)

    async def _read(self) -> Asked:
        work = partial(self.api.read, self.body, self.request_id)
        asked = await self.gateway.work.step(work, len(self.body), RENDER_INLINE_BYTES)
        self.gateway.services.meter.rendered(self.api.name, [request.token_ids for request in asked.requests])
        return asked

    # -- one-shot ----------------------------------------------------------------------------------------------------

    async def _whole(self, asked: Asked) -> bytes:
        if asked.stops:
            runs = await self._collect(asked)
            size = BYTES_PER_TOKEN * sum(run.output for run in runs)
            return await self.gateway.work.step(
                lambda: self._derender(asked, [run.response() for run in runs]), size, DERENDER_INLINE_BYTES
            )
        bodies = await together([self.gateway.engines.generate(request) for request in asked.requests])
        return await self.gateway.work.step(
            lambda: self._derender(asked, list(map(read_response, asked.requests, bodies))),
            sum(map(len, bodies)),
            DERENDER_INLINE_BYTES,
        )

    async def _collect(self, asked: Asked) -> list[CollectingRun]:
        """The answer of engines that stream, so that a stop string ends them at once."""
        runs = [CollectingRun(request, push_to(self.api.open(asked, at))) for at, request in enumerate(asked.requests)]
        async with self._engine_streams(asked) as streams:
            await together([self._relay(run, chunks, _drop) for run, chunks in zip(runs, streams, strict=True)])
        return runs

    def _derender(self, asked: Asked, responses: Sequence[GenerateResponse]) -> bytes:
        try:
            answer = self.api.whole(asked, responses)
        except InputError as error:
            raise unusable(error) from error
        self.gateway.services.meter.whole(self.api.name, answer)
        return encoder.encode(answer)

    # -- streams -----------------------------------------------------------------------------------------------------

    async def _stream(self, asked: Asked, send: Send) -> None:
        name, meter = self.api.name, self.gateway.services.meter
        streams = [self.api.open(asked, at) for at in range(len(asked.requests))]
        events = self.api.events(asked, streams)
        runs: list[Run] = []
        usage = partial(total_usage, runs)
        each = usage if asked.usage.continuous_usage_stats else None
        runs += [Run(request, push_to(stream), each) for request, stream in zip(asked.requests, streams, strict=True)]

        async def relay(at: int, chunks: EngineChunks) -> None:
            async def write(pieces: list[Piece]) -> None:
                for piece in pieces:
                    meter.streamed(name, piece.tokens, piece.parts)
                if written := b"".join([events.of(piece.parts, at) for piece in pieces]):
                    await sink.write(written)

            await self._relay(runs[at], chunks, write)

        async with (
            self._engine_streams(asked) as engine_streams,
            EventSink(send, events.keep_alive, self.gateway.keep_alive) as sink,
        ):
            meter.began(name, usage().prompt_tokens or 0)
            try:
                await together([relay(at, chunks) for at, chunks in enumerate(engine_streams)])
                last = events.end(usage())
            except Exception as error:
                if isinstance(error, ClientGoneError):
                    raise
                last = events.failed(self._told(error))
            finally:
                meter.reasoned(sum(stream.reasoning_tokens for stream in streams))
            await sink.end(last)

    def _told(self, error: Exception) -> tuple[int, str, str | None]:
        """What the client is told of an error in a stream, which is counted and logged too."""
        status, message, param = describe(error)
        route = self.api.route
        self.gateway.services.metrics.errors.labels(route, error_body(status, message)["error"]["type"]).inc()
        if isinstance(error, EngineError | OverloadedError):
            log.warning("a stream of %s failed, request %s: %s", route, self.request_id, message)
        else:
            log.error("a stream of %s failed, request %s", route, self.request_id, exc_info=error)
        return status, message, param

    # -- both --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _engine_streams(self, asked: Asked) -> AsyncIterator[list[EngineChunks]]:
        """The engines' streams, all of which end with the context."""
        opened: list[EngineChunks] = []

        async def begin(at: int) -> EngineChunks:
            opened.append(await self.gateway.engines.stream(asked.requests[at]))
            return opened[-1]

        try:
            yield await together([begin(at) for at in range(len(asked.requests))])
        finally:
            for chunks in opened:
                await chunks.aclose()

    async def _relay(self, run: Run, chunks: EngineChunks, take: Callable[[list[Piece]], Awaitable[None]]) -> None:
        """Hand on what the chunks of an engine request became, until all its choices have finished.

        Raises:
            EngineError: the engine failed, or ended too early.
            ParserError: a parser failed; names it.
        """
        step = self.gateway.work.step
        async for data in chunks:
            await take(await step(partial(run.feed, data), len(data), DERENDER_INLINE_BYTES))
            if not run.open:
                await self._rest(run, chunks)
                return
        run.check_end()

    @staticmethod
    async def _rest(run: Run, chunks: EngineChunks) -> None:
        """What an engine says behind the last token: its usage. It goes on instead where it knows no stop strings."""
        if not run.cut:
            with suppress(TimeoutError, EngineError):
                async with asyncio.timeout(REST_SECONDS):
                    async for data in chunks:
                        run.read(data)
        await chunks.aclose()


async def _drop(pieces: list[Piece]) -> None:
    """For runs that keep by themselves what they need."""
