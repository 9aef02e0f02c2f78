"""What every request passes on its way in and out: its id, the access log, the metrics, and the end of the server.

It stands around Litestar and not in it, so that it sees paths that are not served and errors of any origin as well.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec
from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import (
    ASGIApp,
    HTTPScope,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Message,
    Receive,
    Scope,
    Send,
)

from derender_server.access_log import AccessLog
from derender_server.errors import ERROR_TYPES, REQUEST_ID, error_body
from derender_server.metrics import OTHER, Metrics

__all__ = ["Application", "Gate"]

encoder = msgspec.json.Encoder()

HEADER = b"x-request-id"
LONGEST_ID = 256
GOOD_ID = re.compile(rb"[!-~]{1,%d}" % LONGEST_ID)
LONGEST_PATH = 512
CLIENT_GONE = 499
"""Status in log and metrics of a request that nobody waited for; nginx's."""

OPEN_AT_THE_END = ("/health", "/metrics")
"""Routes that are served while the server ends: it still lives, and can be watched."""

BAD_ID = f"X-Request-Id must be 1 to {LONGEST_ID} visible ASCII characters"
ENDING = "The server is shutting down. Send the request to another one."


class Gate:
    """The way in and out.

    Args:
        app: what answers.
        metrics: where requests are counted.
        root_path: the prefix of paths.
        access_log: gets a line for each request.

    Attributes:
        active: requests that are being answered.
        draining: the server ends; what is new is refused.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, root_path: str = "", access_log: AccessLog | None = None
    ) -> None:
        self._app, self._metrics, self._root_path = app, metrics, root_path
        self._access_log, self._pid = access_log, os.getpid()
        self._then: Callable[[], None] | None = None
        self.active = 0
        self.draining = False

    def drain(self, then: Callable[[], None], seconds: float) -> None:
        """Refuse what is new, and go on when nothing is in flight any more. May be called by a signal handler.

        Args:
            then: what to do afterwards; it is called once.
            seconds: it is called after this time in any case.
        """
        if self.draining or not self.active:
            self.draining, self._then = True, None
            then()
            return
        self.draining, self._then = True, then
        loop = asyncio.get_running_loop()  # signal handlers run in the thread of the loop, between its steps
        loop.call_soon_threadsafe(loop.call_later, seconds, self._end)

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == HEADER), None)
        is_good = given is None or GOOD_ID.fullmatch(given) is not None
        request_id = given if given is not None and is_good else os.urandom(16).hex().encode()
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state[REQUEST_ID] = request_id.decode()
        route = scope["path"].removeprefix(self._root_path)
        if route not in self._metrics.by_route:
            route = OTHER
        status = CLIENT_GONE

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (HEADER, request_id)]
            await send(message)

        self.active += 1
        self._metrics.in_progress.inc()
        try:
            if not is_good:
                await _refuse(send_with_id, 400, BAD_ID)
            elif self.draining and route not in OPEN_AT_THE_END:
                await _refuse(send_with_id, 503, ENDING)
            else:
                await self._app(scope, receive, send_with_id)
        finally:
            self._metrics.in_progress.dec()
            self._account(scope, state, route, status, time.perf_counter() - started)
            self.active -= 1
            if self.draining and not self.active:
                self._end()

    def _end(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def _account(self, scope: HTTPScope, state: MutableMapping[str, Any], route: str, status: int, took: float) -> None:
        self._metrics.by_route[route].done(status, took)
        if status >= 400:
            kind = ERROR_TYPES.get(status) or ERROR_TYPES[400 if status < 500 else 500]
            self._metrics.errors.labels(route, kind).inc()
        if status == 500:
            self._metrics.count_parser_errors()
        if self._access_log is not None:
            line = {
                "time": round(time.time(), 3),
                "pid": self._pid,
                "request_id": state[REQUEST_ID],
                "method": scope["method"],
                "route": route,
                "status": status,
                "duration_ms": round(took * 1000, 3),
            }
            if route == OTHER:
                line["path"] = scope["path"][:LONGEST_PATH].encode(errors="replace").decode()
            self._access_log.write(line)


class Application(Litestar):
    """Litestar behind a gate."""

    gate: Gate

    async def __call__(
        self, scope: Scope | LifeSpanScope, receive: Receive | LifeSpanReceive, send: Send | LifeSpanSend
    ) -> None:
        """The ASGI application."""
        if scope["type"] == ScopeType.HTTP:
            await self.gate(scope, receive, send)  # type: ignore[arg-type]  # they go with the scope's type
        else:
            await super().__call__(scope, receive, send)

    async def behind_gate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the gate is around."""
        await super().__call__(scope, receive, send)


async def _refuse(send: Send, status: int, message: str) -> None:
    body = encoder.encode(error_body(status, message))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 503:  # this connection ends with the server
        headers += [(b"connection", b"close"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
