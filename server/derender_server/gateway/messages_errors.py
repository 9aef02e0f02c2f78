"""Errors as Anthropic's API shows them. Its clients read ``error.type``, and the status."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from litestar import Request, Response

from derender_server.errors import REQUEST_ID, answer_error, error_body

__all__ = ["answer_messages_error", "messages_error_body"]

TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def messages_error_body(
    status: int, message: str, param: str | None = None, request_id: str | None = None
) -> dict[str, Any]:
    """The body of an error answer: the fields of all our errors, in the places and with the types of that API."""
    fallback = "invalid_request_error" if status < 500 else "api_error"
    error = error_body(status, message, param)["error"] | {"type": TYPES.get(status, fallback)}
    body = {"type": "error", "error": error}
    return body if request_id is None else body | {"request_id": request_id}


def answer_messages_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's exception handler for routes of the API."""
    request_id = request.scope["state"].get(REQUEST_ID)
    return answer_error(request, error, partial(messages_error_body, request_id=request_id))
