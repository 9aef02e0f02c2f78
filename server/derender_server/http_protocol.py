"""Uvicorn's HTTP protocol with a time limit for heads of requests, and our body for errors that no application sees."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from derender_server.errors import error_body

__all__ = ["HttpProtocol", "http_protocol"]

MALFORMED = "This is no HTTP/1.1 request. Its head must be well-formed, and complete before --body-timeout is over."


class HttpProtocol(HttpToolsProtocol):
    """One connection. The head of its first request must come in time, and of each later one once it has begun.

    Between requests uvicorn closes connections that are idle.

    Args:
        head_timeout: seconds that a head may take.
        given: uvicorn's arguments.
    """

    def __init__(self, *given: Any, head_timeout: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_timeout = head_timeout
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """A client came."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first bytes of a request's head."""
        super().on_message_begin()
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says more
        """Answer what is no HTTP, and close the connection."""
        self._stop_waiting()
        body = msgspec.json.encode(error_body(400, MALFORMED))
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_timeout, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def http_protocol(head_timeout: float) -> partial[HttpProtocol]:
    """For uvicorn's ``http``: it may have to be sent to other processes."""
    return partial(HttpProtocol, head_timeout=head_timeout)
