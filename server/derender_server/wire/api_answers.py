"""What the Responses and Messages routes and ``/parse`` answer, as pydantic models: schemas of the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from derender_server.wire.responses import ChatMessage, ResponseModel

__all__ = [
    "DerenderMessagesStreamResponse",
    "DerenderResponsesStreamResponse",
    "Message",
    "MessageEvent",
    "ParseResponse",
    "Response",
    "ResponseEvent",
]


class ReasoningText(ResponseModel):
    """Reasoning."""

    type: Literal["reasoning_text"]
    text: str


class OutputText(ResponseModel):
    """Text of the answer."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class OutputItem(ResponseModel):
    """One item of a Response. Which fields it has follows from its type."""

    id: str
    type: Literal["reasoning", "message", "function_call"]
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[ReasoningText | OutputText] | None = None
    summary: list[Any] | None = None
    role: Literal["assistant"] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = Field(default=None, description="JSON text")


class InputTokensDetails(ResponseModel):
    """Where the input tokens came from."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(ResponseModel):
    """What the output tokens were spent on."""

    reasoning_tokens: int


class ResponseUsage(ResponseModel):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(ResponseModel):
    """Why a Response is incomplete."""

    reason: str


class Response(ResponseModel):
    """An OpenAI Response. It repeats fields of the request."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    error: None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    usage: ResponseUsage | None


class ResponseEvent(ResponseModel):
    """An event of a Response's stream. Its further fields follow from its type."""

    type: str
    sequence_number: int
    output_index: int | None = None
    content_index: int | None = None
    item_id: str | None = None
    delta: str | None = None
    text: str | None = None
    arguments: str | None = None
    item: OutputItem | None = None
    response: Response | None = None


class DerenderResponsesStreamResponse(ResponseModel):
    """The events for the client, and the state to send back with the next engine chunk."""

    events: list[ResponseEvent]
    stream_state: dict[str, Any]


class ContentBlock(ResponseModel):
    """One block of a Message. Which fields it has follows from its type."""

    type: Literal["thinking", "text", "tool_use"]
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class ThinkingTokensDetails(ResponseModel):
    """What the output tokens were spent on."""

    thinking_tokens: int


class MessageUsage(ResponseModel):
    """Token counts. `input_tokens` are without those that came from the cache."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int | None = None
    output_tokens_details: ThinkingTokensDetails | None = None


class Message(ResponseModel):
    """An Anthropic Message."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"] | None
    stop_sequence: str | None
    usage: MessageUsage


class MessageEvent(ResponseModel):
    """An event of a Message's stream. Its further fields follow from its type."""

    type: Literal[
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    index: int | None = None
    message: Message | None = None
    content_block: ContentBlock | None = None
    delta: dict[str, Any] | None = None
    usage: MessageUsage | None = None


class DerenderMessagesStreamResponse(ResponseModel):
    """The events for the client, and the state to send back with the next engine chunk."""

    events: list[MessageEvent]
    stream_state: dict[str, Any]


class ParseResponse(ResponseModel):
    """The message that a text amounts to, as in the choice of a chat completion."""

    message: ChatMessage
    finish_reason: str
