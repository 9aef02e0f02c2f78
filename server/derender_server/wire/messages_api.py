"""Anthropic Messages requests, as far as a text model can serve them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Tag, field_validator, model_validator

from derender_server.wire.json_object import JsonObject
from derender_server.wire.sampling_fields import SamplingFields
from derender_server.wire.unions import TEXT_OR_LIST, only_types

__all__ = [
    "ApiMessage",
    "MessagesRequest",
    "MessagesTool",
    "MessagesToolChoice",
    "OutputConfig",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingConfig",
    "ToolResultBlock",
    "ToolUseBlock",
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class TextBlock(_Part):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(_Part):
    """What the assistant thought in an earlier turn. Its signature is not looked at."""

    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(_Part):
    """Thinking that only the service which made it can read. It is left out."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(_Part):
    """A call that the assistant made."""

    type: Literal["tool_use"]
    id: str
    name: str = Field(min_length=1)
    input: JsonObject


TextBlocks = list[Annotated[TextBlock, only_types("a block", "text")]]
TextOrBlocks = Annotated[Annotated[str, Tag("text")] | Annotated[TextBlocks, Tag("list")], TEXT_OR_LIST]


class ToolResultBlock(_Part):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: TextOrBlocks | None = None
    is_error: bool | None = None


UserBlock = Annotated[
    Annotated[TextBlock | ToolResultBlock, Field(discriminator="type")], only_types("a block", "text", "tool_result")
]
AssistantBlock = Annotated[
    Annotated[TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock, Field(discriminator="type")],
    only_types("a block", "text", "thinking", "redacted_thinking", "tool_use"),
]


class UserMessage(_Part):
    """What the user says, or what tools gave."""

    role: Literal["user"]
    content: Annotated[Annotated[str, Tag("text")] | Annotated[list[UserBlock], Tag("list")], TEXT_OR_LIST]


class AssistantMessage(_Part):
    """An earlier turn of the assistant. As the last message: the beginning of the answer."""

    role: Literal["assistant"]
    content: Annotated[Annotated[str, Tag("text")] | Annotated[list[AssistantBlock], Tag("list")], TEXT_OR_LIST]


class SystemMessage(_Part):
    """Instructions within the conversation."""

    role: Literal["system"]
    content: TextOrBlocks


ApiMessage = Annotated[UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")]


class MessagesTool(_Part):
    """A tool of the client's. Those of the service's are not supported."""

    name: str = Field(min_length=1)
    description: str | None = None
    input_schema: JsonObject
    strict: bool | None = None
    type: Literal["custom"] | None = "custom"


class MessagesToolChoice(_Part):
    """Whether the model may, must or must not call, and what."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _names_a_tool(self) -> Self:
        if self.type == "tool" and not self.name:
            raise ValueError("a tool_choice of type tool needs a name")
        return self


class ThinkingConfig(_Part):
    """Whether the model thinks, and whether the client sees it."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class JsonOutputFormat(_Part):
    """The schema that the answer follows."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["json_schema"]
    schema_: JsonObject = Field(alias="schema")


class OutputConfig(_Part):
    """How much effort the answer is worth, and its form."""

    effort: str | None = None
    format: JsonOutputFormat | None = None


class MessagesRequest(SamplingFields):
    """An Anthropic Messages request. The engine's own fields may be given beside those of the API."""

    messages: list[ApiMessage] = Field(min_length=1)
    max_tokens: int = Field(ge=1)
    system: TextOrBlocks | None = None
    stop_sequences: list[Annotated[str, Field(min_length=1)]] | None = None
    tools: list[Annotated[MessagesTool, only_types("a tool", "custom", default="custom")]] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    metadata: JsonObject | None = None
    container: Any = Field(default=None, description="Not supported: null.")
    mcp_servers: list[Any] | None = Field(default=None, description="Not supported: null or empty.")
    chat_template_kwargs: JsonObject | None = Field(default=None, description="Variables for the chat template.")
    include_reasoning: bool = Field(default=True, description="False hides thinking blocks.")

    @field_validator("container", "mcp_servers")
    @classmethod
    def _not_served(cls, value: Any) -> Any:
        if value:
            raise ValueError("it is not supported here; leave it out")
        return value

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int) -> int:
        if value != 1:
            raise ValueError("a Message is one answer; leave n out")
        return value
