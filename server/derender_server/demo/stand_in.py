"""The scripted engine as a server of its own, with delays and faults: what a gateway is tested against.

Built on aiohttp and not on ASGI, because an engine that fails drops its connections, which ASGI does not let one do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from derender_core import InputError
from derender_server.demo.engine import GENERATE_PATH, DemoEngine
from derender_server.demo.performance import Performance, error_answer, json_answer
from derender_server.demo.playing import Playing
from derender_server.demo.request import EngineRequest
from derender_server.demo.switches import UNTOLD, Switches
from derender_server.model import ServedModel, UnknownModelError
from derender_server.wire.decode import decode_body, decode_value, from_value

__all__ = ["StandIn", "serve_stand_in"]

KEPT = 1000
"""Requests that have ended and are still shown."""

BODY_LIMIT = 64 * 2**20
LONGEST_WAIT = 60.0
BACKLOG = (
    2048  # of connections: load tests open hundreds at once, and one that finds no room comes again a second later
)


class StandIn:
    """An engine that plays a script, and fails as it is told.

    Args:
        model: the model that it pretends to run.
        switches: for requests that bring none of their own; may be set anew at any time.

    Attributes:
        url: where it listens, once it does.
    """

    def __init__(self, model: ServedModel, switches: Switches = UNTOLD) -> None:
        self.url = ""
        self._engine = DemoEngine(model, switches)
        self._names = model.names
        self._running: set[Playing] = set()
        self._ended: OrderedDict[Playing, None] = OrderedDict()
        self._faults: Counter[str | None] = Counter()
        self._changed = asyncio.Event()

    @property
    def switches(self) -> Switches:
        """What the whole engine was told."""
        return self._engine.switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
        self._engine.switches = switches
        self._faults.clear()

    @property
    def requests(self) -> list[Playing]:
        """Those that have ended, in the order in which they did, and those that run."""
        return [*self._ended, *self._running]

    def application(self) -> web.Application:
        """The routes, for a runner with ``handler_cancellation``: that is how a client's leaving is noticed."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.add_routes(
            [
                web.post(GENERATE_PATH, self._generate),
                web.post("/abort_requests", self._abort),
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.get("/demo/requests", self._show_requests),
                web.get("/demo/switches", self._show_switches),
                web.put("/demo/switches", self._set_switches),
            ]
        )
        return app

    async def until(self, holds: Callable[[], bool], seconds: float = LONGEST_WAIT) -> None:
        """Wait for something to hold that depends on what runs and what has ended.

        Raises:
            TimeoutError: it does not hold after this time.
        """
        async with asyncio.timeout(seconds):
            while not holds():
                await self._changed.wait()

    # -- answering -----------------------------------------------------------------------------------------------------

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        try:
            request = decode_body(body, EngineRequest)
            switches = self._engine.switches_for(request)
            outputs = self._engine.generate(request)
        except InputError as error:
            return error_answer(404 if isinstance(error, UnknownModelError) else 400, str(error), error.param)
        playing = Playing(msgspec.json.decode(body), self._ended_now)
        self._running.add(playing)
        self._tell()
        try:
            armed = self._armed(request, switches)
            return await Performance(self._engine, http, playing, request, outputs, armed).answer()
        finally:
            playing.end("disconnected")  # unless something else has ended it

    def _armed(self, request: EngineRequest, switches: Switches) -> Switches:
        """The switches, without a fault that has struck often enough."""
        if switches.fault is None or switches.fault_times is None:
            return switches
        own = switches is not self.switches
        key = request.request_id if own else None
        self._faults[key] += 1
        return switches if self._faults[key] <= switches.fault_times else switches.model_copy(update={"fault": None})

    def _ended_now(self, playing: Playing) -> None:
        self._running.discard(playing)
        self._ended[playing] = None
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the other routes ----------------------------------------------------------------------------------------------

    async def _abort(self, http: web.Request) -> web.Response:
        if self.switches.abort_status != 200:
            return error_answer(self.switches.abort_status, "The engine was told not to abort.")
        try:
            body = decode_value(await http.read())
        except InputError as error:
            return error_answer(400, str(error), error.param)
        ids = body.get("request_ids") if isinstance(body, dict) else None
        if not isinstance(ids, list):
            return error_answer(400, "request_ids must be a list of request ids", "request_ids")
        for playing in self.requests:
            if playing.request_id in ids:
                playing.abort()
        self._tell()
        return web.Response()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=self.switches.health_status)

    async def _models(self, _: web.Request) -> web.Response:
        return json_answer({"object": "list", "data": [{"id": name, "object": "model"} for name in self._names]})

    async def _show_requests(self, http: web.Request) -> web.Response:
        """All requests, or with ``request_id`` those of this id; with ``until`` once one has that state, or any end."""
        wanted, until = http.query.get("request_id"), http.query.get("until")

        def found() -> list[Playing]:
            return [one for one in self.requests if wanted is None or one.request_id == wanted]

        def holds() -> bool:
            return any(one.state == until or (until == "ended" and one.state != "running") for one in found())

        if until is not None:
            with contextlib.suppress(TimeoutError):  # what there is then tells enough
                await self.until(holds)
        return json_answer([one.record() for one in found()])

    async def _show_switches(self, _: web.Request) -> web.Response:
        return json_answer(self.switches.model_dump())

    async def _set_switches(self, http: web.Request) -> web.Response:
        try:
            self.switches = from_value(decode_value(await http.read()), Switches)
        except InputError as error:
            return error_answer(400, str(error), error.param)
        return json_answer(self.switches.model_dump())


@asynccontextmanager
async def serve_stand_in(
    model: ServedModel, switches: Switches = UNTOLD, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[StandIn]:
    """A stand-in that listens as long as the block runs. Requests that run at its end are dropped.

    Args:
        model: the model that it pretends to run.
        switches: what it is told.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.

    Raises:
        OSError: the address is taken or not allowed.
    """
    stand_in = StandIn(model, switches)
    runner = web.AppRunner(stand_in.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
        await site.start()
        address = runner.addresses[0]
        stand_in.url = f"http://{f'[{host}]' if ':' in host else host}:{address[1]}"
        yield stand_in
    finally:
        await runner.cleanup()
