"""OpenAI Responses requests, as far as a text model and a server without memory can serve them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

from derender_server.wire.json_object import JsonObject
from derender_server.wire.sampling_fields import SamplingFields
from derender_server.wire.unions import TEXT_OR_LIST, only_types

__all__ = [
    "FunctionCallItem",
    "FunctionCallOutputItem",
    "FunctionTool",
    "FunctionToolChoice",
    "InputItem",
    "MessageItem",
    "ReasoningItem",
    "ReasoningOptions",
    "RefusalPart",
    "ResponsesRequest",
    "TextFormat",
    "TextOptions",
    "TextPart",
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=(), populate_by_name=True)


class TextPart(_Part):
    """Text, of whoever it is."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class RefusalPart(_Part):
    """An answer that the assistant refused to give."""

    type: Literal["refusal"]
    refusal: str


class ReasoningPart(_Part):
    """A piece of reasoning, or of its summary."""

    type: Literal["reasoning_text", "summary_text", "text"]
    text: str


ContentPart = Annotated[
    Annotated[TextPart | RefusalPart, Field(discriminator="type")],
    only_types("a part", "input_text", "output_text", "text", "refusal"),
]
TextOrParts = Annotated[Annotated[str, Tag("text")] | Annotated[list[ContentPart], Tag("list")], TEXT_OR_LIST]
ReasoningParts = list[Annotated[ReasoningPart, only_types("a part", "reasoning_text", "summary_text", "text")]]


class MessageItem(_Part):
    """A message of anyone's."""

    type: Literal["message"]
    role: Literal["user", "assistant", "system", "developer"]
    content: TextOrParts


class ReasoningItem(_Part):
    """What the assistant thought in an earlier turn: the text, else the summary. What is encrypted is left out."""

    type: Literal["reasoning"]
    content: ReasoningParts | None = None
    summary: ReasoningParts | None = None


class FunctionCallItem(_Part):
    """A call that the assistant made."""

    type: Literal["function_call"]
    call_id: str
    name: str = Field(min_length=1)
    arguments: str


class FunctionCallOutputItem(_Part):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: str
    output: TextOrParts


InputItem = Annotated[
    Annotated[MessageItem | ReasoningItem | FunctionCallItem | FunctionCallOutputItem, Field(discriminator="type")],
    only_types("an item", "message", "reasoning", "function_call", "function_call_output", default="message"),
]


class FunctionTool(_Part):
    """A function of the client's. Tools of the service's are not supported."""

    type: Literal["function"]
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class FunctionToolChoice(_Part):
    """Call this function and no other."""

    type: Literal["function"]
    name: str = Field(min_length=1)


def _word_or_function(value: object) -> str:
    return "word" if isinstance(value, str) else "function"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("word")]
    | Annotated[FunctionToolChoice, only_types("a tool_choice", "function"), Tag("function")],
    Discriminator(_word_or_function),
]


class ReasoningOptions(_Part):
    """How much the model reasons."""

    effort: str | None = None


class TextFormat(_Part):
    """The form that the answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema_: JsonObject | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextOptions(_Part):
    """Options of the text."""

    format: TextFormat | None = None

    @field_validator("format")
    @classmethod
    def _has_schema(cls, value: TextFormat | None) -> TextFormat | None:
        if value is not None and value.type == "json_schema" and value.schema_ is None:
            raise ValueError("a json_schema format needs a schema")
        return value


class ResponsesRequest(SamplingFields):
    """An OpenAI Responses request. The engine's own fields may be given beside those of the API."""

    input: Annotated[Annotated[str, Tag("text")] | Annotated[list[InputItem], Tag("list")], TEXT_OR_LIST]
    instructions: str | None = None
    tools: list[Annotated[FunctionTool, only_types("a tool", "function")]] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = True
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    include: list[str] | None = None
    top_logprobs: int | None = Field(default=None, ge=0)
    truncation: Literal["auto", "disabled"] | None = None
    metadata: JsonObject | None = None
    background: bool | None = Field(default=None, description="Not supported: false.")
    previous_response_id: str | None = Field(default=None, description="Not supported: null.")
    conversation: Any = Field(default=None, description="Not supported: null.")
    prompt: Any = Field(default=None, description="Not supported: null.")
    chat_template_kwargs: JsonObject | None = Field(default=None, description="Variables for the chat template.")
    include_reasoning: bool = Field(default=True, description="False hides reasoning items.")

    @field_validator("background", "previous_response_id", "conversation", "prompt")
    @classmethod
    def _not_served(cls, value: Any) -> Any:
        if value:
            raise ValueError("it is not supported here, because nothing is stored; send the whole input instead")
        return value

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int) -> int:
        if value != 1:
            raise ValueError("a Response is one answer; leave n out")
        return value

    @field_validator("input")
    @classmethod
    def _some_input(cls, value: Any) -> Any:
        if not value:
            raise ValueError("it is empty; give some text or items")
        return value
