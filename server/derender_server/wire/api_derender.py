"""Bodies of the derender routes of the Responses and the Messages API, and of ``/parse``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from derender_server.wire.derender import (
    ChatRequestView,
    GenerateResponse,
    GenerateStreamResponse,
    TextRequestView,
    WireModel,
)

__all__ = [
    "DerenderMessagesRequest",
    "DerenderMessagesStreamRequest",
    "DerenderResponsesRequest",
    "DerenderResponsesStreamRequest",
    "MessagesRequestView",
    "OneShotRequest",
    "ParseRequest",
    "ResponsesRequestView",
    "StreamRequest",
    "Transcript",
]


class ResponsesRequestView(TextRequestView):
    """The original Responses request, as far as derendering reads or repeats it. Send it whole."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    truncation: str | None = None
    user: str | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class MessagesRequestView(TextRequestView):
    """The original Messages request, as far as derendering reads it. Send it whole."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class OneShotRequest(WireModel):
    """One-shot: a whole engine response, of one choice."""

    generate_response: GenerateResponse
    stream: Literal[False] | None = False
    model: str | None = None
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = None


class StreamRequest(WireModel):
    """Streaming: one engine chunk and the state of the chunk before."""

    generate_chunk: GenerateStreamResponse
    stream: Literal[True]
    model: str | None = None
    stream_state: dict[str, Any] | None = Field(default=None, description="null on the first call")
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = Field(default=None, description="needed on the first call")


class Transcript(WireModel):
    """What the events of a Response's stream have said so far, for those that say it again."""

    output: list[dict[str, Any]] = Field(
        default_factory=list, description="the items of the response.output_item.done events, in order"
    )
    text: str = Field(default="", description="the deltas of the item that is open, joined")


class DerenderResponsesRequest(OneShotRequest):
    """One-shot: a whole engine response, to become a Response."""

    responses_request: ResponsesRequestView | None = None


class DerenderResponsesStreamRequest(StreamRequest):
    """Streaming: one engine chunk and the state of the chunk before, to become events of a Response."""

    responses_request: ResponsesRequestView | None = None
    transcript: Transcript | None = Field(
        default=None, description="needed with chunks that close an item or end the stream"
    )


class DerenderMessagesRequest(OneShotRequest):
    """One-shot: a whole engine response, to become a Message."""

    messages_request: MessagesRequestView | None = None


class DerenderMessagesStreamRequest(StreamRequest):
    """Streaming: one engine chunk and the state of the chunk before, to become events of a Message."""

    messages_request: MessagesRequestView | None = None


class ParseRequest(WireModel):
    """Text that is already decoded, to be parsed as the answer to a chat request."""

    text: str
    model: str | None = None
    chat_request: ChatRequestView | None = None
    reasoning_open: bool | None = Field(default=None, description="whether the text begins inside reasoning")
    finish_reason: str | None = "stop"
    request_id: str | None = Field(default=None, description="ids of calls are derived from it")
