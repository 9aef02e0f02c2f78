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
    Receive,
    Scope,
    Send,
    WebSocketScope,
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

SWITCHED = 101
"""Status of a WebSocket's handshake."""

REFUSAL = "websocket.http.response"
"""The extension of ASGI by which a handshake is answered with an HTTP error."""

OPEN_AT_THE_END = ("/health", "/metrics")
"""Routes that are served while the server ends: it still lives, and can be watched."""

BAD_ID = f"X-Request-Id must be 1 to {LONGEST_ID} visible ASCII characters"
NO_SOCKET = "There is no WebSocket at this path"
ENDING = "The server is shutting down. Send the request to another one."


class Outgoing:
    """An answer on its way out: gets the request's id, and tells its status.

    Args:
        send: where it goes.
        request_id: the id.

    Attributes:
        status: of the answer so far.
    """

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send, self._header = send, (HEADER, request_id)
        self.status = CLIENT_GONE

    async def __call__(self, message: Any) -> None:
        """Send a message of the application."""
        if message["type"] == "http.response.start":
            self._begin(message, message["status"])
        await self._send(message)

    async def refuse(self, status: int, text: str) -> None:
        """Answer with an error."""
        await self._refuse("http.response", status, text)

    def _begin(self, message: Any, status: int) -> None:
        self.status = status
        message["headers"] = [*message.get("headers", ()), self._header]

    async def _refuse(self, kind: str, status: int, text: str) -> None:
        body = encoder.encode(error_body(status, text))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 503:  # this connection ends with the server
            headers += [(b"connection", b"close"), (b"retry-after", b"1")]
        start: Any = {"type": f"{kind}.start", "status": status, "headers": headers}
        self._begin(start, status)
        await self._send(start)
        rest: Any = {"type": f"{kind}.body", "body": body, "more_body": False}
        await self._send(rest)


class OutgoingSocket(Outgoing):
    """What goes out of a WebSocket. A handshake that is refused gets an HTTP answer, where the server can send one.

    Args:
        send: where it goes.
        request_id: the id.
        scope: of the connection.
    """

    def __init__(self, send: Send, request_id: bytes, scope: WebSocketScope) -> None:
        super().__init__(send, request_id)
        self._answers = REFUSAL in (scope.get("extensions") or {})

    async def __call__(self, message: Any) -> None:
        """Send a message of the application."""
        if message["type"] == "websocket.accept":
            self._begin(message, SWITCHED)
        elif message["type"] == "websocket.close" and self.status == CLIENT_GONE:
            # By Litestar, whose codes are 4000 and a status.
            await self.refuse(message["code"] - 4000, message.get("reason") or "The connection was refused.")
            return
        await self._send(message)

    async def refuse(self, status: int, text: str) -> None:
        """Answer the handshake with an error."""
        if self._answers:
            await self._refuse(REFUSAL, status, text)
            return
        self.status = status
        close: Any = {"type": "websocket.close", "code": 4000 + status, "reason": text}
        await self._send(close)


class Gate:
    """The way in and out.

    Args:
        app: what answers.
        metrics: where requests are counted.
        root_path: the prefix of paths.
        access_log: gets a line for each request.

    Attributes:
        active: requests that are being answered, and WebSockets that are open.
        sockets: the routes that are WebSockets.
        draining: the server ends; what is new is refused.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, root_path: str = "", access_log: AccessLog | None = None
    ) -> None:
        self._app, self._metrics, self._root_path = app, metrics, root_path
        self._access_log, self._pid = access_log, os.getpid()
        self._then: Callable[[], None] | None = None
        self.active = 0
        self.sockets: frozenset[str] = frozenset()
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

    async def __call__(self, scope: HTTPScope | WebSocketScope, receive: Receive, send: Send) -> None:
        """Answer a request, or serve a connection for as long as it is open."""
        started = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == HEADER), None)
        is_good = given is None or GOOD_ID.fullmatch(given) is not None
        request_id = given if given is not None and is_good else os.urandom(16).hex().encode()
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state[REQUEST_ID] = request_id.decode()
        route = scope["path"].removeprefix(self._root_path)
        if route not in self._metrics.by_route:
            route = OTHER
        is_socket = scope["type"] == ScopeType.WEBSOCKET
        outgoing = OutgoingSocket(send, request_id, scope) if is_socket else Outgoing(send, request_id)  # type: ignore[arg-type]
        self.active += 1
        self._metrics.in_progress.inc()
        try:
            if not is_good:
                await outgoing.refuse(400, BAD_ID)
            elif self.draining and route not in OPEN_AT_THE_END:
                await outgoing.refuse(503, ENDING)
            elif is_socket and route not in self.sockets:
                await outgoing.refuse(404, NO_SOCKET)
            else:
                await self._app(scope, receive, outgoing)
        finally:
            self._metrics.in_progress.dec()
            self._account(scope, state, route, outgoing.status, time.perf_counter() - started)
            self.active -= 1
            if self.draining and not self.active:
                self._end()

    def _end(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def _account(
        self,
        scope: HTTPScope | WebSocketScope,
        state: MutableMapping[str, Any],
        route: str,
        status: int,
        took: float,
    ) -> None:
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
                "method": scope.get("method", "WEBSOCKET"),
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
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        else:
            await self.gate(scope, receive, send)  # type: ignore[arg-type]  # they go with the scope's type

    async def behind_gate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the gate is around."""
        await super().__call__(scope, receive, send)
