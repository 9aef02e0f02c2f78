"""The part of the OpenAI protocol that parsers read and write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class FunctionDefinition(BaseModel):
    """A function that is offered."""

    name: str
    parameters: dict[str, Any] | None = None


class ChatCompletionToolsParam(BaseModel):
    """A tool that is offered."""

    type: str = "function"
    function: FunctionDefinition


class ChatCompletionRequest(BaseModel):
    """A chat request."""

    messages: list[dict[str, Any]]
    model: str | None = None
    tools: list[ChatCompletionToolsParam] | None = None
    tool_choice: str | dict[str, Any] | None = "none"
    chat_template_kwargs: dict[str, Any] | None = None
    skip_special_tokens: bool = True


class FunctionCall(BaseModel):
    """A complete call of a function."""

    name: str
    arguments: str


class ToolCall(BaseModel):
    """A complete tool call."""

    id: str = "chatcmpl-tool-made-up"
    type: str = "function"
    function: FunctionCall


class ExtractedToolCallInformation(BaseModel):
    """What a whole output holds."""

    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


class DeltaFunctionCall(BaseModel):
    """A piece of a call of a function."""

    name: str | None = None
    arguments: str | None = None


class DeltaToolCall(BaseModel):
    """A piece of a tool call."""

    id: str | None = None
    type: str | None = None
    index: int
    function: DeltaFunctionCall | None = None


class DeltaMessage(BaseModel):
    """What a piece of an output adds to the message."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = []
