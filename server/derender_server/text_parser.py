"""The parsers, on text that is already decoded."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from derender_core.errors import InputError
from derender_core.inputs import Delta
from derender_core.message import fold_message
from derender_server.chat import CallIds, chat_finish_reason, message_body
from derender_server.deployment import Deployment
from derender_server.prepared import PreparedRequests
from derender_server.wire.api_derender import ParseRequest
from derender_server.wire.derender import ChatRequestView

__all__ = ["TextParser"]

CHARACTERS_PER_TOKEN = 16  # far above the mean of any language; single tokens may be longer


class TextParser:
    """Turns texts into messages.

    Args:
        deployment: the setup.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._requests = PreparedRequests(deployment, ChatRequestView, "chat_request", lambda view: view)

    def message(self, request: ParseRequest) -> dict[str, Any]:
        """``{"message", "finish_reason"}``, as in the choice of a chat completion.

        Markers are known by their texts alone, and nothing is cut: neither stop strings nor the end token, which
        decoded text should not contain.

        Raises:
            InputError: the request is wrong or the text too long; names the field.
            ParserError: a parser failed; names it.
        """
        deployment = self._deployment
        deployment.model.resolve_name(request.model)
        longest = CHARACTERS_PER_TOKEN * deployment.limits.max_model_len
        if len(request.text) > longest:
            raise InputError(
                f"text has {len(request.text)} characters; at most {longest} ({CHARACTERS_PER_TOKEN} for each token "
                "of max_model_len) are allowed",
                "text",
            )
        call, options = self._requests.of(request.chat_request, whole=True)
        context = call.pipeline.open(replace(call.context, reasoning_open=request.reasoning_open), None)
        finish_reason = request.finish_reason or "stop"
        events = call.pipeline.extract(Delta(request.text, final=True, finish_reason=finish_reason), context)
        ids = CallIds(request.request_id or uuid.uuid4().hex, 0, length=deployment.call_id_length)
        message = message_body(fold_message(events), options, ids)
        reason = chat_finish_reason(finish_reason, calls="tool_calls" in message, options=options)
        return {"message": message, "finish_reason": reason}
