"""Bodies of the derender routes: what an engine said, and what the client had asked for.

These pydantic models are the contract and the OpenAPI schemas. Unknown fields are ignored, because engines add fields
with every release; known fields are strict, because a token id sent as a string is somebody's bug.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "ChatRequestView",
    "CompletionRequestView",
    "DerenderChatContext",
    "DerenderChatRequest",
    "DerenderChatStreamRequest",
    "DerenderCompletionRequest",
    "DerenderCompletionStreamRequest",
    "EngineLogprobs",
    "EngineUsage",
    "GenerateChoice",
    "GenerateResponse",
    "GenerateStreamChoice",
    "GenerateStreamResponse",
    "TextRequestView",
    "TokenLogprob",
    "TopLogprob",
    "WireModel",
]


class WireModel(BaseModel):
    """Base of the request bodies: unknown fields are ignored, known ones are not coerced."""

    model_config = ConfigDict(extra="ignore", strict=True, protected_namespaces=())


class TopLogprob(WireModel):
    """One alternative at a position, in either of the shapes that engines send."""

    logprob: float
    token_id: int | None = None
    token: str | None = Field(default=None, description='`"token_id:123"`, or text that is passed through')
    bytes: list[int] | None = None
    rank: int | None = None


class TokenLogprob(TopLogprob):
    """The token that was sampled at a position, and its alternatives."""

    top_logprobs: list[TopLogprob] | None = None


class EngineLogprobs(WireModel):
    """Log probabilities, one entry for each output token."""

    content: list[TokenLogprob] | None = None


class EngineUsage(WireModel):
    """Token counts as the engine reports them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: dict[str, Any] | None = None


class GenerateChoice(WireModel):
    """One generated sequence, complete."""

    index: int = 0
    token_ids: list[int] | None = None
    finish_reason: str | None = "stop"
    stop_reason: int | str | None = Field(default=None, description="stop token id or stop string that ended it")
    logprobs: EngineLogprobs | None = None


class GenerateResponse(WireModel):
    """An engine's whole answer to one `GenerateRequest`."""

    choices: list[GenerateChoice]
    request_id: str | None = None
    model: str | None = None
    created: int | None = None
    usage: EngineUsage | None = None
    output_mode: str | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


class GenerateStreamChoice(WireModel):
    """What a sequence grew by."""

    index: int = 0
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: EngineLogprobs | None = None


class GenerateStreamResponse(WireModel):
    """One chunk of an engine's stream; no choices in a chunk that only reports usage."""

    choices: list[GenerateStreamChoice] = Field(default_factory=list)
    request_id: str | None = None
    model: str | None = None
    usage: EngineUsage | None = None
    output_mode: str | None = None
    prompt_token_ids: list[int] | None = None


class TextRequestView(WireModel):
    """The fields of a request that change how ids become text."""

    model: str | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = None
    skip_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    n: int | None = None


class ChatRequestView(TextRequestView):
    """The original chat request, as far as derendering reads it. Send it whole: all else is ignored, unread."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    include_reasoning: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class CompletionRequestView(TextRequestView):
    """The original completion request, as far as derendering reads it."""

    logprobs: int | None = None


class DerenderChatRequest(WireModel):
    """One-shot: a whole engine response, to become a chat completion."""

    generate_response: GenerateResponse
    stream: Literal[False] | None = False
    model: str | None = None
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = None
    chat_request: ChatRequestView | None = None


class DerenderChatStreamRequest(WireModel):
    """Streaming: one engine chunk and the state of the chunk before, to become a chat completion chunk."""

    generate_chunk: GenerateStreamResponse
    stream: Literal[True]
    model: str | None = None
    stream_state: dict[str, Any] | None = Field(default=None, description="null on the first call")
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = Field(default=None, description="needed on the first call")
    chat_request: ChatRequestView | None = None


class DerenderChatContext(WireModel):
    """The first message of a WebSocket: what all chunks of a stream have in common."""

    model: str | None = None
    stream_state: dict[str, Any] | None = Field(
        default=None, description="to go on with a stream of one choice that began elsewhere"
    )
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = Field(default=None, description="needed, unless the first chunk brings them")
    chat_request: ChatRequestView | None = None


class DerenderCompletionRequest(WireModel):
    """One-shot: an engine response for each prompt, to become one text completion."""

    generate_responses: list[GenerateResponse] = Field(json_schema_extra={"minItems": 1})
    stream: Literal[False] | None = False
    model: str | None = None
    prompt_tokens: list[int] | None = Field(default=None, description="one for each response; for usage only")
    prompt_token_ids: list[list[int]] | None = Field(default=None, description="one list for each response")
    completion_request: CompletionRequestView | None = None


class DerenderCompletionStreamRequest(WireModel):
    """Streaming: one engine chunk and the state of the chunk before, to become a text completion chunk."""

    generate_chunk: GenerateStreamResponse
    stream: Literal[True]
    model: str | None = None
    stream_state: dict[str, Any] | None = Field(default=None, description="null on the first call")
    prompt_tokens: int | None = Field(default=None, description="for usage only")
    prompt_token_ids: list[int] | None = None
    completion_request: CompletionRequestView | None = None
