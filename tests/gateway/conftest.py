"""What the gateway's tests share: an engine that plays a script, and a client that sees every message of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from derender_server.access_log import AccessLog
from derender_server.app import create_app
from derender_server.gate import Application
from derender_server.settings import Settings
from derender_server.wire.generate import GenerateRequest

Step = dict[str, Any] | bytes | Exception | asyncio.Event
"""What an engine does next: it sends a chunk, as JSON or as it is; it fails; or it waits."""

PATIENCE = 30
"""Seconds after which a test that waits has failed."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ScriptedStream:
    """An engine's stream that plays steps."""

    def __init__(self, request: GenerateRequest, steps: Sequence[Step]) -> None:
        self.request, self._steps = request, list(steps)
        self.read = 0
        self.closed = asyncio.Event()

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> bytes:
        assert not self.closed.is_set(), "read after it was closed"
        while self.read < len(self._steps):
            step = self._steps[self.read]
            self.read += 1
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                return step if isinstance(step, bytes) else json.dumps(step).encode()
        raise StopAsyncIteration

    @property
    def is_read(self) -> bool:
        """Whether all of it was asked for."""
        return self.read == len(self._steps)

    async def aclose(self) -> None:
        if not self.closed.is_set():
            self.closed.set()


class ScriptedEngines:
    """Engines that play, for each request in turn, a list of steps as a stream or a step as the whole response.

    Attributes:
        requests: what they were asked.
        streams: the streams they began.
        cancelled: set when a whole response was not waited for.
    """

    def __init__(self) -> None:
        self._scripts: list[Any] = []
        self.requests: list[GenerateRequest] = []
        self.streams: list[ScriptedStream] = []
        self.asked, self.cancelled = asyncio.Event(), asyncio.Event()

    def play(self, *scripts: Sequence[Step] | Step) -> None:
        """What to answer to the next requests."""
        self._scripts += scripts

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def report(self) -> list[dict[str, Any]]:
        return []

    async def generate(self, request: GenerateRequest) -> bytes:
        step = self._next(request)
        try:
            if isinstance(step, asyncio.Event):
                await step.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, bytes) else json.dumps(step).encode()

    async def stream(self, request: GenerateRequest) -> ScriptedStream:
        steps = self._next(request)
        if isinstance(steps, Exception):
            raise steps
        self.streams.append(ScriptedStream(request, steps))
        return self.streams[-1]

    def _next(self, request: GenerateRequest) -> Any:
        self.requests.append(request)
        self.asked.set()
        return self._scripts.pop(0)


class Call:
    """A request to the application, and the messages of its answer as they come.

    Attributes:
        status, headers: of the answer, once it has begun.
        received: its body so far.
        stalls_after: the client takes so many messages, and the next only once ``goes_on`` is set.
        breaks_after: the client takes so many messages, and the next raises what servers raise then.
    """

    def __init__(self, app: Application, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._gone, self._given = asyncio.Event(), False
        self.stalls_after, self.breaks_after, self._taken, self.goes_on = -1, -1, 0, asyncio.Event()
        self._news = asyncio.Condition()
        self.status, self.headers, self.received, self.is_complete = 0, {}, b"", False
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": raw,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
        }  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._given:
            self._given = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self._taken == self.stalls_after:
            await self.goes_on.wait()
        if self._taken == self.breaks_after:
            raise BrokenPipeError
        self._taken += 1
        async with self._news:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.received += message["body"]
                self.is_complete = not message.get("more_body", False)
                if self.is_complete:
                    self._gone.set()
            self._news.notify_all()

    def leave(self) -> None:
        """The client closes its connection."""
        self._gone.set()

    async def begun(self) -> None:
        """Wait until the head has come."""
        await self._wait(lambda: self.status)

    async def until(self, part: str) -> None:
        """Wait until the body holds a text."""
        await self._wait(lambda: part.encode() in self.received)

    async def end(self) -> Call:
        """Wait until the application is done."""
        await asyncio.wait_for(self.task, PATIENCE)
        return self

    async def _wait(self, come: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(come)

    @property
    def json(self) -> Any:
        """The body of an answer that is no stream."""
        return json.loads(self.received)

    @property
    def events(self) -> list[tuple[str | None, Any]]:
        """Names and data of a stream's events; comments are left out."""
        found = []
        for block in self.received.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in fields:
                data = fields["data"]
                found.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
        return found

    @property
    def data(self) -> list[Any]:
        """The data of a stream's events."""
        return [data for _, data in self.events]


class Served:
    """The demo's application before scripted engines."""

    def __init__(self, app: Application, engines: ScriptedEngines) -> None:
        self.app, self.engines = app, engines

    def call(self, path: str, body: Any, *, method: str = "POST", **headers: str) -> Call:
        """Begin a request."""
        return Call(self.app, method, path, body, {"content-type": "application/json"} | headers)

    async def post(self, path: str, body: Any, **headers: str) -> Call:
        """A request and its whole answer."""
        return await self.call(path, body, **headers).end()

    def ids(self, text: str) -> list[int]:
        """Token ids of what a model says."""
        return self.app.state.services.model.tokenizer.encode(text)

    def chunks(
        self, text: str | list[int], *, size: int = 1, index: int = 0, finish_reason: str | None = "stop", **last: Any
    ) -> list[dict[str, Any]]:
        """Chunks of an engine that says this, the last with its finish reason."""
        token_ids = self.ids(text) if isinstance(text, str) else text
        pieces = [token_ids[at : at + size] for at in range(0, len(token_ids), size)]
        choices = [{"index": index, "token_ids": piece, "finish_reason": None} for piece in pieces]
        choices[-1] |= {"finish_reason": finish_reason, **last}
        return [{"request_id": "engine", "choices": [choice]} for choice in choices]

    def response(self, *texts: str, **choice: Any) -> dict[str, Any]:
        """An engine's whole response, a choice for each text."""
        choices = [
            {"index": at, "token_ids": self.ids(text), "finish_reason": "stop", **choice}
            for at, text in enumerate(texts)
        ]
        return {"request_id": "engine", "choices": choices}


Serve = Callable[..., Any]


@pytest.fixture
def serve() -> Serve:
    """``async with serve() as served:`` the demo, with settings as keywords; ``served.engines.play`` scripts it.

    With ``engine_url`` among the settings it asks that engine instead.
    """

    @asynccontextmanager
    async def run(access_log: AccessLog | None = None, **settings: Any) -> AsyncIterator[Served]:
        engines = ScriptedEngines()
        told = Settings(model="demo", **settings)
        app = create_app(told, access_log, None if "engine_url" in settings else engines)
        async with app.lifespan():
            yield Served(app, engines)

    return run
