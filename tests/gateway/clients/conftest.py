"""The gateway on a socket, in front of the scripted engine: what official clients are pointed at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from derender_server.app import create_app
from derender_server.demo.stand_in import StandIn, serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.model import ServedModel
from derender_server.settings import Settings

CALL = '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>'
THOUGHT = "<think>\nHm.\n</think>\n\n"
PATIENCE = 10


@dataclass
class Gateway:
    """A gateway that runs in another thread, and its engine."""

    url: str
    engine: StandIn
    loop: asyncio.AbstractEventLoop

    def says(self, text: str | list[str], **switches: Any) -> None:
        """What the engine answers from now on."""
        self.engine.switches = Switches(text=text, **switches)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something to hold that depends on the engine's requests."""
        asyncio.run_coroutine_threadsafe(self.engine.until(holds, PATIENCE), self.loop).result(2 * PATIENCE)

    @property
    def last(self) -> dict[str, Any]:
        """The last request that the engine got."""
        request: dict[str, Any] = self.engine.requests[-1].request
        return request


@pytest.fixture(scope="session")
def running() -> Iterator[Gateway]:
    made: list[Gateway] = []
    ready = threading.Event()
    servers: list[uvicorn.Server] = []

    async def run() -> None:
        async with serve_stand_in(ServedModel.load("demo")) as engine:
            app = create_app(Settings(model="demo", engine_url=(engine.url,)))
            config = uvicorn.Config(app, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=1)
            bound = config.bind_socket()
            host, port = bound.getsockname()[:2]
            made.append(Gateway(f"http://{host}:{port}", engine, asyncio.get_running_loop()))
            servers.append(uvicorn.Server(config))
            ready.set()
            await servers[0].serve([bound])

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(PATIENCE)
    yield made[0]
    servers[0].should_exit = True
    thread.join()


@pytest.fixture
def gateway(running: Gateway) -> Gateway:
    running.engine.switches = Switches()
    return running
