"""Messages and tools of a chat request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag, model_validator

from derender_server.wire.json_object import check_depth

__all__ = [
    "ChatMessage",
    "ChatTool",
    "ContentPart",
    "FunctionCall",
    "FunctionDefinition",
    "HistoryToolCall",
    "NamedFunction",
    "NamedToolChoice",
    "ToolChoiceField",
    "VerbatimModel",
]


def _plain(value: Any) -> Any:
    """For callers who build requests from models: those become dicts again."""
    if isinstance(value, VerbatimModel):
        return value.raw
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    return [_plain(item) for item in value] if isinstance(value, list) else value


class VerbatimModel(BaseModel):
    """A model that remembers what it was made from.

    Chat templates print such objects as JSON, and prompts must not change their tokens because a key moved or a
    default was filled in.
    """

    model_config = ConfigDict(extra="allow")

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember(cls, data: Any, handler: Callable[[Any], Self]) -> Self:
        model = handler(data)
        if isinstance(data, dict):
            check_depth(data)
            model._raw = {key: _plain(value) for key, value in data.items()}
        return model

    @property
    def raw(self) -> dict[str, Any]:
        """The object as the client sent it, keys in its order."""
        return self._raw


class ContentPart(VerbatimModel):
    """One part of a message's content. Only text can be rendered."""

    type: str = Field(min_length=1)
    text: str | None = None
    refusal: str | None = None


class FunctionCall(BaseModel):
    """A function that an earlier assistant turn called."""

    name: str
    arguments: str | dict[str, Any] | None = Field(
        default=None, description="A JSON object, as text (the OpenAI form) or as it is."
    )


class HistoryToolCall(VerbatimModel):
    """A tool call of an earlier assistant turn."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


def _text_or_parts(value: object) -> str | None:
    return "text" if isinstance(value, str) else "parts" if isinstance(value, list) else None


# A callable discriminator, so that an error names what is wrong in the form that was chosen and not every other form.
MessageContent = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[ContentPart], Tag("parts")],
    Discriminator(
        _text_or_parts,
        custom_error_type="message_content",
        custom_error_message="Content must be a string, a list of parts or null",
    ),
]


class ChatMessage(VerbatimModel):
    """One message. Fields that are not listed reach the chat template as they are."""

    role: str = Field(min_length=1, description="system, developer, user, assistant, tool, or what the template knows.")
    content: MessageContent | None = None
    tool_calls: list[HistoryToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = Field(default=None, description="Reasoning of an earlier assistant turn.")
    reasoning_content: str | None = Field(default=None, description="The same, under its other common name.")


class FunctionDefinition(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="JSON Schema of the arguments.")
    strict: bool | None = Field(default=None, description="Hold the model to the schema.")


class ChatTool(VerbatimModel):
    """A tool that the request offers."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class NamedFunction(BaseModel):
    """The function that must be called."""

    name: str = Field(min_length=1)


class NamedToolChoice(BaseModel):
    """Call this function and no other."""

    type: Literal["function"] = "function"
    function: NamedFunction


def _word_or_function(value: object) -> str:
    return "word" if isinstance(value, str) else "function"


ToolChoiceField = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("word")] | Annotated[NamedToolChoice, Tag("function")],
    Discriminator(_word_or_function),
]
