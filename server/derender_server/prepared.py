"""What a request means for derendering, worked out once for all the chunks of its stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

from pydantic import BaseModel

from derender_core.errors import InputError
from derender_server.chat_options import ChatOptions, parse_context
from derender_server.deployment import Deployment
from derender_server.sequence import Request
from derender_server.stops import TextOptions
from derender_server.wire.decode import decode_body, encode_fields
from derender_server.wire.derender import ChatRequestView

__all__ = ["Prepared", "PreparedRequests"]

Prepared = tuple[Request, ChatOptions]
"""A request as the parsers and as the shape of the answer need it."""

V = TypeVar("V", bound=BaseModel)
CACHED_REQUESTS = 128
CACHED_BYTES = 16384


class PreparedRequests(Generic[V]):
    """Requests of one API, as the parsers and the shape of the answer need them.

    Args:
        deployment: the setup.
        view: the model of such a request.
        param: the field that brings it.
        to_chat: the chat request that means the same.
    """

    def __init__(
        self, deployment: Deployment, view: type[V], param: str, to_chat: Callable[[V], ChatRequestView]
    ) -> None:
        self._deployment, self._view, self._param, self._to_chat = deployment, view, param, to_chat
        self._cached = lru_cache(CACHED_REQUESTS)(self._of_json)

    def of(self, view: V | None, *, whole: bool) -> Prepared:
        """What a request means.

        Args:
            view: the request, if it was given.
            whole: it is for a whole answer, whose calls come whole.

        Raises:
            InputError: it is missing and a parser is configured, or a field is wrong; names it.
        """
        if view is None:
            if self._deployment.has_parser:
                raise InputError(
                    f"{self._param} is required because a parser is configured: without the request its markup would "
                    "be shown as text",
                    self._param,
                )
            return self._read(None, whole)
        # Every chunk of a stream brings the same request. Making the key takes a tenth of what reading it again would.
        key = encode_fields(view)
        return self._cached(key, whole) if len(key) <= CACHED_BYTES else self._read(view, whole)

    def _of_json(self, key: bytes, whole: bool) -> Prepared:
        return self._read(decode_body(key, self._view), whole)

    def _read(self, view: V | None, whole: bool) -> Prepared:
        deployment = self._deployment
        chat = None if view is None else self._to_chat(view)
        context = parse_context(
            chat,
            default_kwargs=deployment.default_chat_template_kwargs,
            stream_tool_calls="whole" if whole else deployment.stream_tool_calls,
        )
        text = TextOptions.of(chat, self._param)
        request = Request(deployment.model, deployment.limits, deployment.pipeline(context), context, text)
        return request, ChatOptions.of(chat, context, deployment.reasoning_field)
