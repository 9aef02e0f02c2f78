"""Reading the body of a request: what is not JSON, too large or too slow is refused before it is all there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.exceptions import HTTPException

__all__ = ["USUAL_LIMITS", "BodyLimits", "ClientGoneException", "read_json"]


class UnsupportedMediaTypeException(HTTPException):
    """The body is not declared to be JSON."""

    status_code = 415


class PayloadTooLargeException(HTTPException):
    """The body is over the limit."""

    status_code = 413


class RequestTimeoutException(HTTPException):
    """The body did not come in time."""

    status_code = 408


class ClientGoneException(HTTPException):
    """The client closed the connection before its request was complete. Nobody sees the answer."""

    status_code = 499


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What bodies may be.

    Args:
        max_bytes: bytes.
        seconds: in which a body must have arrived.
    """

    max_bytes: int = 64 * 2**20
    seconds: float = 60


USUAL_LIMITS = BodyLimits()


async def read_json(request: Request[Any, Any, Any], limits: BodyLimits) -> bytes:
    """The body of a request, which must be declared as JSON or not at all.

    Raises:
        UnsupportedMediaTypeException: it is declared to be something else, or compressed.
        PayloadTooLargeException: it is declared to be too long, or is.
        RequestTimeoutException: it did not come in time.
        ClientGoneException: it did not come to its end.
    """
    # Not `request.headers`: that parses them all, which takes as long as decoding a small body.
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            _check_type(value.lower())
        elif name == b"content-length":
            _check_length(int(value) if value.isdigit() else 0, limits)
        elif name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise UnsupportedMediaTypeException("The body must not be compressed; leave content-encoding out")
    try:
        async with asyncio.timeout(limits.seconds):
            return await _read(request, limits)
    except TimeoutError as error:
        raise RequestTimeoutException(
            f"The body did not arrive within {limits.seconds:g} seconds (--body-timeout)",
            headers={"connection": "close"},  # what still comes is no new request
        ) from error


async def _read(request: Request[Any, Any, Any], limits: BodyLimits) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientGoneException("The connection was closed before the body was complete")
        body = message["body"]
        if not message.get("more_body", False) and not pieces:
            _check_length(len(body), limits)
            return body
        length += len(body)
        _check_length(length, limits)
        pieces.append(body)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _check_type(kind: bytes) -> None:
    if b"json" not in kind:
        shown = kind.decode("latin-1")
        raise UnsupportedMediaTypeException(f"The body must be JSON, with content-type application/json, not {shown!r}")
    _, _, charset = kind.partition(b"charset=")
    if charset and charset.strip(b" \"'").partition(b";")[0] not in (b"utf-8", b"utf8", b"us-ascii"):
        raise UnsupportedMediaTypeException("JSON must be in UTF-8; leave the charset out of content-type")


def _check_length(length: int, limits: BodyLimits) -> None:
    if length > limits.max_bytes:
        raise PayloadTooLargeException(f"The body is longer than {limits.max_bytes} bytes (--body-limit)")
