"""Chats of models that have a ``tekken.json`` and no chat template: ``mistral-common`` renders them, straight to ids.

So a text in a message can never become a control token. A template given with ``--chat-template``, or one that the
model has, is used instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from derender_core.byte_tokenizer import ByteTokenizer
from derender_core.errors import InputError, TemplateError, TokenizerLoadError
from derender_core.tekken import TEKKEN_FILE
from derender_server.model import ServedModel
from derender_server.template_messages import template_messages
from derender_server.template_traits import TemplateTraits
from derender_server.wire.requests import TemplateFields

__all__ = ["MistralChat"]

_ID = re.compile(r"[A-Za-z0-9]{9}")
_TRAITS = TemplateTraits(content_format="string", tests_null_content=True, knows_developer=False)
# What mistral-common knows of an OpenAI message; it refuses others.
_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "reasoning"})


class MistralChat:
    """Renders chats by ``mistral-common``.

    Args:
        path: the ``tekken.json``.

    Raises:
        TokenizerLoadError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        try:
            self._tokenizer = MistralTokenizer.from_file(path)
        except Exception as error:  # the library checks files with assert
            raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {type(error).__name__}: {error}") from error

    @classmethod
    def of(cls, model: ServedModel) -> MistralChat | None:
        """The renderer of a model's chats, if its tokenizer is its ``tekken.json``."""
        path = model.directory / TEKKEN_FILE
        tekken = isinstance(model.tokenizer.tokenizer, ByteTokenizer) and path.is_file()
        return cls(path) if tekken else None

    def token_ids(self, request: TemplateFields, template_kwargs: Mapping[str, Any]) -> list[int]:
        """The prompt of a request.

        Raises:
            InputError: a field that cannot be rendered; names it.
            TemplateError: ``mistral-common`` refuses the messages.
        """
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        if request.chat_template is not None:
            raise InputError(
                "chat_template: this server renders chats by mistral-common; start it with --chat-template to use "
                "templates",
                "chat_template",
            )
        messages = [_openai(message) for message in template_messages(request.messages, "string", _TRAITS)]
        effort = template_kwargs.get("reasoning_effort")
        try:
            chat = ChatCompletionRequest.from_openai(
                messages,
                tools=[tool.raw for tool in request.tools] if request.tools else None,
                continue_final_message=bool(request.continue_final_message),
                **({"reasoning_effort": effort} if effort else {}),
            )
            return list(self._tokenizer.encode_chat_completion(chat).tokens)
        except Exception as error:  # its own errors, those of pydantic, and what unexpected data raises
            reason = str(error).strip() or type(error).__name__
            raise TemplateError(f"messages: mistral-common refuses the request: {reason}", "messages") from error


def _openai(message: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in message.items() if key in _FIELDS}
    if "tool_calls" in message:
        result["tool_calls"] = [
            {
                "id": _nine(call.get("id")),
                "type": "function",
                "function": {"name": call["function"]["name"], "arguments": _text(call["function"].get("arguments"))},
            }
            for call in message["tool_calls"]
        ]
    if "tool_call_id" in message:
        result["tool_call_id"] = _nine(message["tool_call_id"])
    return result


def _text(arguments: object) -> str:
    if isinstance(arguments, dict):
        return str(arguments) if type(arguments) is not dict else json.dumps(arguments)
    return arguments if isinstance(arguments, str) else "{}"


def _nine(call_id: object) -> str:
    """An id as Mistral's models know them, nine letters and digits: the end of the given one, or made from it."""
    text = str(call_id or "")
    end = text[-9:]
    return end if _ID.fullmatch(end) else sha256(text.encode(errors="replace")).hexdigest()[:9]
