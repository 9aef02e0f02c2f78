"""``JsonAnswer``: a body that is JSON already, as an ASGI application."""

from __future__ import annotations

from litestar.types import Receive, Scope, Send

__all__ = ["JsonAnswer"]


class JsonAnswer:
    """Answers 200 with a body of JSON. Litestar's own response works out for each answer what is fixed here.

    Args:
        body: the JSON.
    """

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the protocol
        """The ASGI application."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
