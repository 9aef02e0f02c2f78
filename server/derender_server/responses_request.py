"""OpenAI Responses requests as chat requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_server.api_request import content_parts, sampling_fields, text_fields, thinking_switches
from derender_server.wire.api_derender import ResponsesRequestView
from derender_server.wire.derender import ChatRequestView
from derender_server.wire.responses_api import (
    FunctionCallItem,
    FunctionCallOutputItem,
    FunctionTool,
    FunctionToolChoice,
    MessageItem,
    ReasoningItem,
    RefusalPart,
    ResponsesRequest,
    TextFormat,
    TextPart,
)

__all__ = ["RESPONSES_NAMES", "responses_to_chat", "responses_view_to_chat"]

RESPONSES_NAMES: Mapping[str, str] = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "truncate_prompt_tokens": "truncation",
}
"""What the fields of the chat request are called in the API."""

LOGPROBS = "message.output_text.logprobs"


def responses_to_chat(request: ResponsesRequest) -> dict[str, Any]:
    """The chat request that means the same.

    Raises:
        InputError: arguments of an earlier call that are not a JSON object; names them.
    """
    chat = sampling_fields(request)
    chat["messages"] = _messages(request)
    if request.max_output_tokens is not None:
        chat.pop("max_tokens", None)
        chat["max_completion_tokens"] = request.max_output_tokens
    if request.tools:
        chat["tools"] = [_tool(tool) for tool in request.tools]
    choice = request.tool_choice
    if isinstance(choice, FunctionToolChoice):
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice is not None:
        chat["tool_choice"] = choice
    chat["parallel_tool_calls"] = request.parallel_tool_calls is not False
    if request.text is not None and request.text.format is not None:
        chat["response_format"] = _format(request.text.format)
    effort = request.reasoning.effort if request.reasoning is not None else None
    if effort is not None:
        chat["reasoning_effort"] = effort
    if LOGPROBS in (request.include or ()):
        chat |= {"logprobs": True, "top_logprobs": request.top_logprobs or 0}
    if request.truncation == "auto":
        chat.setdefault("truncate_prompt_tokens", -1)
    chat["chat_template_kwargs"] = _template_kwargs(effort, request.chat_template_kwargs)
    chat["include_reasoning"] = request.include_reasoning
    return chat


def responses_view_to_chat(view: ResponsesRequestView) -> ChatRequestView:
    """The same for derendering.

    Raises:
        InputError: a tool or ``tool_choice`` that cannot be understood; names it.
    """
    effort = (view.reasoning or {}).get("effort")
    effort = effort if isinstance(effort, str) else None
    return ChatRequestView(
        **text_fields(view),
        tools=[_tool_of_view(tool, at) for at, tool in enumerate(view.tools or ())],
        tool_choice=_choice_of_view(view.tool_choice),
        parallel_tool_calls=view.parallel_tool_calls,
        include_reasoning=view.include_reasoning,
        reasoning_effort=effort,
        chat_template_kwargs=_template_kwargs(effort, view.chat_template_kwargs),
    )


def _template_kwargs(effort: str | None, own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Variables for the template. No effort at all means no thinking; those that the client gives as such win."""
    return (thinking_switches(False) if effort == "none" else {}) | dict(own or {})


def _format(given: TextFormat) -> dict[str, Any]:
    if given.type != "json_schema":
        return {"type": given.type}
    schema = {"name": given.name, "schema": given.schema_, "strict": given.strict}
    return {"type": "json_schema", "json_schema": {key: value for key, value in schema.items() if value is not None}}


def _tool(tool: FunctionTool) -> dict[str, Any]:
    fields = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return {"type": "function", "function": {key: value for key, value in fields.items() if value is not None}}


def _tool_of_view(tool: Mapping[str, Any], at: int) -> dict[str, Any]:
    param = f"responses_request.tools.{at}"
    name, parameters = tool.get("name"), tool.get("parameters")
    if not isinstance(name, str) or not name:
        raise InputError(
            f'{param}.name must be a string that is not empty; a tool is {{"type": "function", "name": ...}}',
            f"{param}.name",
        )
    if parameters is not None and not isinstance(parameters, dict):
        raise InputError(f"{param}.parameters must be a JSON Schema object", f"{param}.parameters")
    return {"function": {"name": name, "parameters": parameters, "strict": tool.get("strict")}}


def _choice_of_view(choice: str | Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    if choice is None or (isinstance(choice, str) and choice in ("none", "auto", "required")):
        return choice
    name = choice.get("name") if isinstance(choice, Mapping) and choice.get("type") == "function" else None
    if isinstance(name, str) and name:
        return {"type": "function", "function": {"name": name}}
    raise InputError(
        'responses_request.tool_choice must be "none", "auto", "required" or {"type": "function", "name": ...}',
        "responses_request.tool_choice",
    )


# -- input -------------------------------------------------------------------------------------------------------------


def _messages(request: ResponsesRequest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if request.instructions is not None:
        found.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*found, {"role": "user", "content": request.input}]
    names = {item.call_id: item.name for item in request.input if isinstance(item, FunctionCallItem)}
    for at, item in enumerate(request.input):
        if isinstance(item, FunctionCallOutputItem):
            found.append(_result(item, names))
        elif isinstance(item, MessageItem) and item.role != "assistant":
            found.append({"role": item.role, "content": content_parts(_texts(item.content))})
        else:
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": ""})
            _add_to_turn(found[-1], item, at)
    return found


def _add_to_turn(turn: dict[str, Any], item: MessageItem | ReasoningItem | FunctionCallItem, at: int) -> None:
    """Reasoning, texts and calls that stand side by side are one turn of the assistant's."""
    if isinstance(item, FunctionCallItem):
        _check_arguments(item.arguments, f"input.{at}.arguments")
        call = {
            "id": item.call_id,
            "type": "function",
            "function": {"name": item.name, "arguments": item.arguments},
        }
        turn.setdefault("tool_calls", []).append(call)
    elif isinstance(item, MessageItem):
        before = _content_texts(turn["content"])
        turn["content"] = content_parts([*before, *_texts(item.content)])
    else:
        texts = [part.text for part in item.content or item.summary or ()]
        before = [turn["reasoning"]] if "reasoning" in turn else []
        if texts:
            turn["reasoning"] = "\n".join([*before, *texts])


def _content_texts(content: str | Sequence[Mapping[str, str]]) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [part["text"] for part in content]


def _texts(content: str | Sequence[TextPart | RefusalPart]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part.refusal if isinstance(part, RefusalPart) else part.text for part in content]


def _result(item: FunctionCallOutputItem, names: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {"role": "tool", "tool_call_id": item.call_id}
    if item.call_id in names:
        result["name"] = names[item.call_id]
    return result | {"content": content_parts(_texts(item.output))}


def _check_arguments(arguments: str, param: str) -> None:
    if not arguments.strip():
        return
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{param} is not valid JSON: {error}; send the arguments as a JSON object", param) from error
    if not isinstance(value, dict):
        raise InputError(f"{param} must be the text of a JSON object, not of {type(value).__name__}", param)
