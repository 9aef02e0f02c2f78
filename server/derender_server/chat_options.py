"""What a chat request means for its answer: the context of the parsers, and the shape of the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from derender_core.errors import InputError
from derender_core.inputs import ParseContext, StreamToolCalls, Tool
from derender_server.wire.derender import ChatRequestView

__all__ = ["REASONING_FIELDS", "ChatOptions", "ReasoningField", "parse_context"]

ReasoningField = Literal["reasoning", "reasoning_content", "both"]
REASONING_FIELDS: Mapping[ReasoningField, tuple[str, ...]] = {
    "reasoning": ("reasoning",),
    "reasoning_content": ("reasoning_content",),
    "both": ("reasoning", "reasoning_content"),
}
"""The names under which clients look for the reasoning, by ``--reasoning-field``."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a message is shown.

    Args:
        reasoning_fields: the names that reasoning goes under; empty when the client must not see it.
        max_calls: how many calls are returned; None is all.
        forced: a call was required, so absent content is ``""``.
        keep_stop: one function was named, so the finish reason stays ``"stop"``.
        return_token_ids: the client wants the ids too.
        logprobs: False when they are withheld.
        top_logprobs: how many alternatives are shown at each position; None is all.
    """

    reasoning_fields: tuple[str, ...] = ("reasoning",)
    max_calls: int | None = None
    forced: bool = False
    keep_stop: bool = False
    return_token_ids: bool = False
    logprobs: bool = True
    top_logprobs: int | None = None

    @classmethod
    def of(cls, request: ChatRequestView | None, context: ParseContext, field: ReasoningField) -> ChatOptions:
        """The options of a request.

        Args:
            request: the request, if there is one.
            context: what ``parse_context`` made of it.
            field: the server's ``--reasoning-field``.
        """
        if request is None:
            return cls(REASONING_FIELDS[field])
        visible = request.include_reasoning is not False
        max_calls = 0 if context.tool_choice == "none" else 1 if request.parallel_tool_calls is False else None
        named = context.forced_name is not None
        top = request.top_logprobs if request.top_logprobs is not None else 0 if request.logprobs else None
        return cls(
            reasoning_fields=REASONING_FIELDS[field] if visible else (),
            max_calls=max_calls,
            forced=named or context.tool_choice == "required",
            keep_stop=named,
            # Ids and their probabilities would give hidden reasoning away.
            return_token_ids=bool(request.return_token_ids) and visible,
            logprobs=request.logprobs is not False and visible,
            top_logprobs=None if top is not None and top < 0 else top,
        )


def parse_context(
    request: ChatRequestView | None, *, default_kwargs: Mapping[str, Any], stream_tool_calls: StreamToolCalls
) -> ParseContext:
    """What the parsers may know of a request.

    Args:
        request: the request, if there is one.
        default_kwargs: the server's ``--default-chat-template-kwargs``; the request's go over them.
        stream_tool_calls: whether calls are sent as they come.

    Raises:
        InputError: a tool or ``tool_choice`` that cannot be understood; names it.
    """
    if request is None:
        return ParseContext(tools=(), template_kwargs=default_kwargs, stream_tool_calls=stream_tool_calls)
    effort = {} if request.reasoning_effort is None else {"reasoning_effort": request.reasoning_effort}
    tools = tuple(_tool(tool, at) for at, tool in enumerate(request.tools or ()))
    return ParseContext(
        tools=tools,
        tool_choice=_tool_choice(request.tool_choice),
        template_kwargs={**default_kwargs, **effort, **(request.chat_template_kwargs or {})},
        stream_tool_calls=stream_tool_calls,
    )


def _tool(tool: Mapping[str, Any], at: int) -> Tool:
    function = tool.get("function")
    if not isinstance(function, dict):
        raise InputError(
            f"chat_request.tools.{at}.function is missing; a tool is "
            '{"type": "function", "function": {"name": ..., "parameters": ...}}',
            f"chat_request.tools.{at}.function",
        )
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name:
        raise InputError(
            f"chat_request.tools.{at}.function.name must be a string that is not empty",
            f"chat_request.tools.{at}.function.name",
        )
    if parameters is not None and not isinstance(parameters, dict):
        raise InputError(
            f"chat_request.tools.{at}.function.parameters must be a JSON Schema object",
            f"chat_request.tools.{at}.function.parameters",
        )
    return Tool(name, parameters, strict=function.get("strict") is True)


def _tool_choice(choice: str | Mapping[str, Any] | None) -> str:
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        if choice in ("none", "auto", "required") or choice.startswith("function:"):  # the latter from our renderer
            return choice
    else:
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and name:
            return f"function:{name}"
    raise InputError(
        'chat_request.tool_choice must be "none", "auto", "required" or '
        '{"type": "function", "function": {"name": ...}}',
        "chat_request.tool_choice",
    )
