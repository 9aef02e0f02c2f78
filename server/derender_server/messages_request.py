"""Anthropic Messages requests as chat requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_server.api_request import content_parts, sampling_fields, text_fields, thinking_switches
from derender_server.wire.api_derender import MessagesRequestView
from derender_server.wire.derender import ChatRequestView
from derender_server.wire.messages_api import (
    AssistantMessage,
    MessagesRequest,
    MessagesTool,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

__all__ = ["MESSAGES_NAMES", "messages_to_chat", "messages_view_to_chat"]

MESSAGES_NAMES: Mapping[str, str] = {
    "stop": "stop_sequences",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
}
"""What the fields of the chat request are called in the API."""

CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}


def messages_to_chat(request: MessagesRequest) -> dict[str, Any]:
    """The chat request that means the same."""
    chat = sampling_fields(request)
    chat["messages"] = _messages(request)
    if request.tools:
        chat["tools"] = [_tool(tool) for tool in request.tools]
    choice = request.tool_choice
    if choice is not None:
        chat["tool_choice"] = _choice(choice.type, choice.name)
        chat["parallel_tool_calls"] = not choice.disable_parallel_tool_use
    if request.stop_sequences is not None:
        chat["stop"] = request.stop_sequences
    if request.output_config is not None:
        if request.output_config.effort is not None:
            chat["reasoning_effort"] = request.output_config.effort
        if request.output_config.format is not None:
            schema = {"name": "output", "schema": request.output_config.format.schema_}
            chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    thinking = request.thinking.model_dump() if request.thinking is not None else None
    chat["chat_template_kwargs"] = _template_kwargs(thinking, request.chat_template_kwargs)
    chat["include_reasoning"] = request.include_reasoning and _shows_thinking(thinking)
    if isinstance(request.messages[-1], AssistantMessage) and not chat["messages"][-1].get("tool_calls"):
        chat["continue_final_message"] = True
    return chat


def messages_view_to_chat(view: MessagesRequestView) -> ChatRequestView:
    """The same for derendering.

    Raises:
        InputError: a tool or ``tool_choice`` that cannot be understood; names it.
    """
    choice = view.tool_choice or {}
    kind, name = choice.get("type", "auto"), choice.get("name")
    if not isinstance(kind, str) or (kind not in CHOICES and not (kind == "tool" and isinstance(name, str) and name)):
        raise InputError(
            'messages_request.tool_choice must be {"type": "auto" | "any" | "none"} or {"type": "tool", "name": ...}',
            "messages_request.tool_choice",
        )
    output = view.output_config or {}
    effort = output.get("effort")
    return ChatRequestView(
        **text_fields(view) | {"stop": view.stop_sequences if view.stop_sequences is not None else view.stop},
        tools=[_tool_of_view(tool, at) for at, tool in enumerate(view.tools or ())],
        tool_choice=_choice(kind, name),
        parallel_tool_calls=choice.get("disable_parallel_tool_use") is not True,
        include_reasoning=view.include_reasoning is not False and _shows_thinking(view.thinking),
        reasoning_effort=effort if isinstance(effort, str) else None,
        chat_template_kwargs=_template_kwargs(view.thinking, view.chat_template_kwargs),
    )


def _choice(kind: str, name: object) -> str | dict[str, Any]:
    return CHOICES.get(kind) or {"type": "function", "function": {"name": name}}


def _template_kwargs(thinking: Mapping[str, Any] | None, own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Variables for the template; the client's own win. Without ``thinking`` the template decides."""
    switches: dict[str, Any] = {}
    kind = (thinking or {}).get("type")
    if kind is not None:
        switches |= thinking_switches(kind != "disabled")
    budget = (thinking or {}).get("budget_tokens")
    if budget is not None:
        switches["thinking_budget"] = budget
    return switches | dict(own or {})


def _shows_thinking(thinking: Mapping[str, Any] | None) -> bool:
    return thinking is None or (thinking.get("type") != "disabled" and thinking.get("display") != "omitted")


def _tool(tool: MessagesTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_of_view(tool: Mapping[str, Any], at: int) -> dict[str, Any]:
    param = f"messages_request.tools.{at}"
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str) or not name:
        raise InputError(f"{param}.name must be a string that is not empty", f"{param}.name")
    if schema is not None and not isinstance(schema, dict):
        raise InputError(f"{param}.input_schema must be a JSON Schema object", f"{param}.input_schema")
    return {"function": {"name": name, "parameters": schema, "strict": tool.get("strict")}}


# -- messages ----------------------------------------------------------------------------------------------------------


def _messages(request: MessagesRequest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if request.system:
        found.append({"role": "system", "content": content_parts(_texts(request.system))})
    names: dict[str, str] = {}
    for message in request.messages:
        if isinstance(message, UserMessage):
            found += _user(message, names)
        elif isinstance(message, AssistantMessage):
            found.append(_assistant(message, names))
        elif isinstance(message, SystemMessage):
            found.append({"role": "system", "content": content_parts(_texts(message.content))})
    return found


def _texts(content: str | Sequence[object] | None) -> list[str]:
    if content is None:
        return [""]
    if isinstance(content, str):
        return [content]
    return [block.text for block in content if isinstance(block, TextBlock)]


def _user(message: UserMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Results of tools are messages of their own; texts between them stay together."""
    if isinstance(message.content, str):
        return [{"role": "user", "content": message.content}]
    found: list[dict[str, Any]] = []
    texts: list[str] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            texts.append(block.text)
            continue
        if texts:
            found.append({"role": "user", "content": content_parts(texts)})
            texts = []
        found.append(_result(block, names))
    if texts or not found:
        found.append({"role": "user", "content": content_parts(texts)})
    return found


def _result(block: ToolResultBlock, names: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {"role": "tool", "tool_call_id": block.tool_use_id}
    if block.tool_use_id in names:
        result["name"] = names[block.tool_use_id]
    result["content"] = content_parts(_texts(block.content))
    if block.is_error is not None:
        result["is_error"] = block.is_error
    return result


def _assistant(message: AssistantMessage, names: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {"role": "assistant", "content": content_parts(_texts(message.content) or [""])}
    if isinstance(message.content, str):
        return result
    thoughts = [block.thinking for block in message.content if isinstance(block, ThinkingBlock)]
    if thoughts:
        result["reasoning"] = "\n".join(thoughts)
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    if calls:
        result["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.input}}
            for call in calls
        ]
        names.update((call.id, call.name) for call in calls)
    return result
