"""Exceptions to answers: the only table of statuses, and the only place where error bodies are made."""

from __future__ import annotations

import http
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException
from pydantic import ValidationError

from derender_core.errors import InputError, ParserError
from derender_server.gateway.engine_errors import EngineError
from derender_server.model import UnknownModelError
from derender_server.wire.decode import input_error

__all__ = ["ERROR_TYPES", "REQUEST_ID", "OverloadedError", "answer_error", "describe", "error_body"]

log = logging.getLogger("derender")

ERROR_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "PayloadTooLargeError",
    415: "UnsupportedMediaTypeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}
"""``type`` of an error body, by status."""


REQUEST_ID = "derender_request_id"
"""Where the ASGI scope's state has the id of a request."""


class OverloadedError(Exception):
    """More long work is waiting than this process will take on."""


def error_body(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """The body of an error answer."""
    kind = ERROR_TYPES.get(status) or ERROR_TYPES[400 if status < 500 else 500]
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def describe(error: Exception) -> tuple[int, str, str | None]:
    """Status, message and ``param`` of an exception. Never shows more of our own bugs than that there is one."""
    if isinstance(error, UnknownModelError):
        return 404, str(error), error.param
    if isinstance(error, InputError):
        return 400, str(error), error.param
    if isinstance(error, ValidationError):
        found = input_error(error, None)
        return 400, str(found), found.param
    if isinstance(error, OverloadedError):
        return 503, str(error), None
    if isinstance(error, EngineError):
        return error.status, error.message, error.param
    if isinstance(error, HTTPException) and error.status_code < 500:
        return error.status_code, error.detail or http.HTTPStatus(error.status_code).phrase, None
    if isinstance(error, ParserError):
        return 500, f"A parser failed. {error}", None
    return 500, "Internal server error. The server's log has the details.", None


def answer_error(
    request: Request[Any, Any, Any],
    error: Exception,
    body: Callable[[int, str, str | None], dict[str, Any]] = error_body,
) -> Response[bytes]:
    """Litestar's exception handler, for every exception.

    Args:
        request: what failed.
        error: why.
        body: the shape of the answer, from status, message and ``param``.
    """
    status, message, param = describe(error)
    if status >= 500 and not isinstance(error, OverloadedError | EngineError):
        request_id = request.scope["state"].get(REQUEST_ID)
        log.error("%s %s failed, request %s", request.method, request.scope["path"], request_id, exc_info=error)
    return Response(
        msgspec.json.encode(body(status, message, param)),
        status_code=status,
        media_type=MediaType.JSON,
        headers=dict(error.headers or {}) if isinstance(error, HTTPException) else None,
    )
