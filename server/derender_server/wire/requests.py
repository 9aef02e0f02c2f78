"""Requests to render: OpenAI chat and text completions with vLLM's additions, and the tokenizer endpoints' bodies."""

from __future__ import annotations

from typing import Annotated, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from derender_server.wire.chat_messages import (
    ChatMessage,
    ChatTool,
    ContentPart,
    FunctionCall,
    FunctionDefinition,
    HistoryToolCall,
    NamedFunction,
    NamedToolChoice,
    ToolChoiceField,
)
from derender_server.wire.json_object import JsonObject
from derender_server.wire.sampling_fields import (
    JsonSchemaFormat,
    ResponseFormat,
    SamplingFields,
    StreamOptions,
    StructuredOutputs,
)

__all__ = [
    "ChatCompletionRequest",
    "ChatMessage",
    "ChatTool",
    "CompletionRequest",
    "ContentPart",
    "DetokenizeRequest",
    "DetokenizeResponse",
    "FunctionCall",
    "FunctionDefinition",
    "HistoryToolCall",
    "JsonSchemaFormat",
    "NamedFunction",
    "NamedToolChoice",
    "ResponseFormat",
    "StreamOptions",
    "StructuredOutputs",
    "TemplateFields",
    "TokenizeRequest",
    "TokenizeResponse",
]

T = TypeVar("T")
TokenId = Annotated[int, Field(ge=0)]
NotEmpty = Annotated[list[T], Field(min_length=1)]


def _prompt_form(value: object) -> str | None:
    """Which of the four forms a prompt has, by its first element."""
    if isinstance(value, str):
        return "text"
    if not isinstance(value, list):
        return None
    first = value[0] if value else ""
    return "texts" if isinstance(first, str) else "many_ids" if isinstance(first, list) else "ids"


Prompts = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[NotEmpty[str], Tag("texts")]
    | Annotated[NotEmpty[TokenId], Tag("ids")]
    | Annotated[NotEmpty[NotEmpty[TokenId]], Tag("many_ids")],
    Discriminator(
        _prompt_form,
        custom_error_type="prompt",
        custom_error_message="A prompt is a string, a list of strings, a list of token ids or a list of such lists",
    ),
]


class TemplateFields(BaseModel):
    """What decides how messages become a prompt."""

    model_config = ConfigDict(extra="ignore")

    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[ChatTool] | None = None
    documents: list[JsonObject] | None = Field(default=None, description="Documents for retrieval templates.")
    chat_template: str | None = Field(default=None, description="Refused unless the server trusts request templates.")
    chat_template_kwargs: JsonObject | None = Field(default=None, description="Variables for the chat template.")
    reasoning_effort: str | None = Field(default=None, description="Reaches the template as reasoning_effort.")
    add_generation_prompt: bool | None = Field(
        default=None, description="Append the header of an assistant turn. Default: yes, unless a message is continued."
    )
    continue_final_message: bool | str = Field(
        default=False, description="Leave the last message open, for the model to go on. A string names its field."
    )
    add_special_tokens: bool = Field(default=False, description="Add BOS and the like around what the template wrote.")

    @field_validator("continue_final_message")
    @classmethod
    def _one_way_to_end(cls, value: bool | str, info: ValidationInfo) -> bool | str:
        if value and info.data.get("add_generation_prompt"):
            raise ValueError("continue_final_message and add_generation_prompt exclude each other; set one to false")
        return value

    @property
    def generation_prompt(self) -> bool:
        """Whether the template is asked to begin an assistant turn."""
        return not self.continue_final_message if self.add_generation_prompt is None else self.add_generation_prompt


class ChatCompletionRequest(SamplingFields, TemplateFields):
    """A chat completion request."""

    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = True
    include_reasoning: bool = True
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(default=None, ge=-1)

    @field_validator("max_tokens")
    @classmethod
    def _some_output(cls, value: int | None) -> int | None:
        if value == 0:
            raise ValueError("max_tokens must be at least 1")
        return value

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value != 0 and not info.data.get("logprobs"):
            raise ValueError("top_logprobs needs logprobs: true")
        return value

    @field_validator("tool_choice")
    @classmethod
    def _choice_is_offered(
        cls, value: str | NamedToolChoice | None, info: ValidationInfo
    ) -> str | NamedToolChoice | None:
        if "tools" not in info.data or value in (None, "none", "auto"):
            return value
        names = [tool.function.name for tool in info.data["tools"] or ()]
        if not names:
            raise ValueError("this tool_choice needs tools")
        if isinstance(value, NamedToolChoice) and value.function.name not in names:
            raise ValueError(f"tool {value.function.name!r} is not among those offered: {', '.join(names)}")
        return value

    @property
    def tool_choice_text(self) -> str:
        """``none``, ``auto``, ``required`` or ``function:NAME``; without tools ``none``, else ``auto`` by default."""
        if not self.tools:
            return "none"
        if isinstance(self.tool_choice, NamedToolChoice):
            return f"function:{self.tool_choice.function.name}"
        return self.tool_choice or "auto"


class CompletionRequest(SamplingFields):
    """A text completion request."""

    prompt: Prompts
    logprobs: int | None = Field(default=None, ge=-1)
    echo: bool = False
    add_special_tokens: bool = Field(default=True, description="Add what the tokenizer puts around a text.")

    @model_validator(mode="after")
    def _some_output(self) -> Self:
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens must be at least 1 unless echo is true")
        return self


class TokenizeRequest(TemplateFields):
    """Text or messages to tokenize: exactly one of ``prompt`` and ``messages``."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] = Field(default_factory=list)
    add_special_tokens: bool | None = Field(  # type: ignore[assignment]  # here the default depends on what is given
        default=None, description="Default: true for a prompt, false for messages."
    )
    return_token_strs: bool | None = False

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.prompt is None) == (not self.messages):
            raise ValueError("give either prompt or messages")
        return self


class TokenizeResponse(BaseModel):
    """The tokens of a text."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(BaseModel):
    """Token ids to turn into text."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    tokens: list[TokenId]


class DetokenizeResponse(BaseModel):
    """The text that token ids stand for, special tokens written out."""

    prompt: str
