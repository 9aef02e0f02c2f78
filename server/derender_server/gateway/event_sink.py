"""Server-sent events, out to one client."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import msgspec
from litestar.types import Send

from derender_server.gateway.client_watch import ClientGoneError

__all__ = ["EventSink", "data_event", "named_event"]

encoder = msgspec.json.Encoder()

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]


def data_event(body: Any) -> bytes:
    """An event without a name."""
    return b"data: " + encoder.encode(body) + b"\n\n"


def named_event(body: dict[str, Any]) -> bytes:
    """An event that is named by its ``type``."""
    kind: str = body["type"]
    return b"event: " + kind.encode() + b"\ndata: " + encoder.encode(body) + b"\n\n"


class EventSink:
    """``async with EventSink(...) as sink:`` has sent the head, and says now and then that the server still lives.

    Writing waits for the client. So nothing piles up here when it is slow.

    Args:
        send: the request's.
        keep_alive: what is sent after some silence.
        interval: how long a silence is, in seconds.
    """

    def __init__(self, send: Send, keep_alive: bytes, interval: float) -> None:
        self._send, self._keep_alive, self._interval = send, keep_alive, interval
        self._lock = asyncio.Lock()  # events come from several tasks
        self._time = asyncio.get_running_loop().time
        self._last = self._time()

    async def __aenter__(self) -> Self:
        await self._pass_on({"type": "http.response.start", "status": 200, "headers": [*HEADERS]})
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticking.cancel()

    async def write(self, events: bytes) -> None:
        """Send events.

        Raises:
            ClientGoneError: nobody is there any more.
        """
        async with self._lock:
            self._last = self._time()
            await self._pass_on({"type": "http.response.body", "body": events, "more_body": True})

    async def end(self, events: bytes) -> None:
        """Send the last events, and end the answer.

        Raises:
            ClientGoneError: nobody is there any more.
        """
        self._ticking.cancel()
        async with self._lock:
            await self._pass_on({"type": "http.response.body", "body": events, "more_body": False})

    async def _pass_on(self, message: Any) -> None:
        try:
            await self._send(message)
        except OSError as error:
            raise ClientGoneError from error

    async def _tick(self) -> None:
        # One timer for the whole stream: what is sent meanwhile only moves its next end.
        while True:
            left = self._last + self._interval - self._time()
            if left > 0:
                await asyncio.sleep(left)
            elif self._lock.locked():  # the client is slow, which is no silence of ours
                await asyncio.sleep(self._interval)
            else:
                try:
                    await self.write(self._keep_alive)
                except ClientGoneError:  # whoever writes next is told too
                    return
