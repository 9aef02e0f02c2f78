"""Messages of a request as a chat template wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from derender_core.errors import InputError
from derender_server.template_sandbox import JsonArguments
from derender_server.template_traits import TemplateTraits
from derender_server.wire.chat_messages import ChatMessage, ContentPart, HistoryToolCall

__all__ = ["REASONING_KEYS", "ContentForm", "template_messages"]

ContentForm = Literal["string", "openai", "either"]
"""``"string"``: parts are joined to text. ``"openai"``: text becomes a part. ``"either"``: as the client sent it."""

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
# Names under which reasoning of earlier turns is known: the first that is set is offered under all of them.
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")


def template_messages(
    messages: Sequence[ChatMessage], form: ContentForm, traits: TemplateTraits
) -> list[dict[str, Any]]:
    """Plain dicts for a template; the messages stay unchanged.

    Null fields are left out, since templates print them as "None". Tool-call arguments become objects. Reasoning is
    offered under each of its names. A ``developer`` message is a ``system`` message for templates that do not know the
    role: they would leave the instructions out.

    Raises:
        InputError: a part that is not text, or arguments that are not a JSON object. Names the field.
    """
    return [_message(message, at, form, traits) for at, message in enumerate(messages)]


def _message(message: ChatMessage, at: int, form: ContentForm, traits: TemplateTraits) -> dict[str, Any]:
    result = {key: value for key, value in message.raw.items() if value is not None}
    if message.role == "developer" and not traits.knows_developer:
        result["role"] = "system"
    result["content"] = _content(message, f"messages.{at}.content", form, traits)
    result.pop("tool_calls", None)
    if message.tool_calls:
        result["tool_calls"] = [
            _tool_call(call, f"messages.{at}.tool_calls.{nth}.function.arguments")
            for nth, call in enumerate(message.tool_calls)
        ]
    reasoning = next((result[key] for key in REASONING_KEYS if key in result), None)
    if reasoning is not None:
        result |= {"thinking": reasoning} | result | {"reasoning": reasoning, "reasoning_content": reasoning}
    return result


def _content(
    message: ChatMessage, param: str, form: ContentForm, traits: TemplateTraits
) -> str | list[dict[str, str]] | None:
    content = message.content
    if not content and message.role == "assistant" and traits.tests_null_content:
        # Such a template takes empty content beside tool calls for an answer, and drops the calls.
        content = None if message.tool_calls else content
    if content is None:
        if message.role == "assistant" and traits.tests_null_content:
            return None
        return [] if form == "openai" else ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if form == "openai" else content
    texts = [_part_text(part, f"{param}.{nth}") for nth, part in enumerate(content)]
    if form == "string":
        return "\n".join(texts)
    return [{"type": "text", "text": text} for text in texts]


def _part_text(part: ContentPart, param: str) -> str:
    if part.type == "refusal":
        text, field = part.refusal, "refusal"
    elif part.type in TEXT_PARTS:
        text, field = part.text, "text"
    else:
        raise InputError(
            f"{param}: a part of type {part.type!r} cannot be rendered, only text can; "
            "remove it, or replace it by a text part",
            param,
        )
    if text is None:
        raise InputError(f"{param}.{field} is missing: a part of type {part.type!r} needs it", f"{param}.{field}")
    return text


def _tool_call(call: HistoryToolCall, param: str) -> dict[str, Any]:
    function = dict(call.raw.get("function") or {})
    function["arguments"] = _arguments(call.function.arguments, param)
    return (
        {"type": call.type}
        | {key: value for key, value in call.raw.items() if value is not None}
        | {"function": function}
    )


def _arguments(arguments: str | dict[str, Any] | None, param: str) -> JsonArguments:
    if isinstance(arguments, dict):
        return JsonArguments(arguments, json.dumps(arguments, ensure_ascii=False))
    if not arguments or not arguments.strip():
        return JsonArguments({}, "{}")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{param} is not valid JSON: {error}; send the arguments as a JSON object", param) from error
    if not isinstance(value, dict):
        raise InputError(f"{param} must be a JSON object, not {type(value).__name__}", param)
    return JsonArguments(value, arguments)
