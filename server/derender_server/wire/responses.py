"""What the server answers, as pydantic models: the schemas of the OpenAPI document.

Bodies are built as plain dicts, where a key that is absent and a key that is null differ; a test holds them to these
models. Extra fields are allowed, because the protocol lets a response carry more than it lists.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "ChatCompletion",
    "ChatCompletionChunk",
    "Completion",
    "DerenderChatStreamResponse",
    "DerenderCompletionStreamResponse",
    "DetokenizeResponse",
    "ErrorResponse",
    "LoadResponse",
    "ModelList",
    "TokenizeResponse",
    "VersionResponse",
]


class ResponseModel(BaseModel):
    """Base of the response bodies."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class ErrorInfo(ResponseModel):
    """What went wrong, and where."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorResponse(ResponseModel):
    """Every error has this shape."""

    error: ErrorInfo


class CompletionTokensDetails(ResponseModel):
    """What the output tokens were spent on."""

    reasoning_tokens: int


class Usage(ResponseModel):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: CompletionTokensDetails | None = None
    prompt_tokens_details: dict[str, Any] | None = None


class AlternativeLogprob(ResponseModel):
    """One alternative at a position."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatTokenLogprob(AlternativeLogprob):
    """The token at a position, and its alternatives."""

    top_logprobs: list[AlternativeLogprob]


class ChatLogprobs(ResponseModel):
    """Log probabilities of a message."""

    content: list[ChatTokenLogprob] | None


class FunctionCall(ResponseModel):
    """A function and its arguments, as JSON text."""

    name: str
    arguments: str


class ChatToolCall(ResponseModel):
    """A call that the model makes."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(ResponseModel):
    """The assistant's message. `reasoning` may be called `reasoning_content`, or be given under both names."""

    role: Literal["assistant"]
    content: str | None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatChoice(ResponseModel):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: int | str | None
    token_ids: list[int] | None


class ChatCompletion(ResponseModel):
    """An OpenAI chat completion, with the fields that the protocol adds."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: list[Any] | None
    prompt_token_ids: list[int] | None
    kv_transfer_params: dict[str, Any] | None
    metrics: dict[str, Any] | None


class FunctionCallDelta(ResponseModel):
    """A piece of a call: the name with the first, then fragments of the arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(ResponseModel):
    """A piece of a call. `id` and `type` come with the first only."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallDelta


class ChatDelta(ResponseModel):
    """What a message grew by. A key that has nothing to say is absent."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChatChunkChoice(ResponseModel):
    """What one answer grew by."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None


class ChatCompletionChunk(ResponseModel):
    """An OpenAI chat completion chunk. `choices` is empty in one that only reports usage."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    prompt_token_ids: list[int] | None = None


class DerenderChatStreamResponse(ResponseModel):
    """The chunk for the client, and the state to send back with the next engine chunk."""

    chunk: ChatCompletionChunk
    stream_state: dict[str, Any]


class CompletionLogprobs(ResponseModel):
    """Log probabilities of a text, as parallel lists."""

    text_offset: list[int]
    token_logprobs: list[float]
    tokens: list[str]
    top_logprobs: list[dict[str, float]]


class CompletionChoice(ResponseModel):
    """One text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class Completion(ResponseModel):
    """An OpenAI text completion, or a chunk of one."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    kv_transfer_params: dict[str, Any] | None = None


class DerenderCompletionStreamResponse(ResponseModel):
    """The chunk for the client, and the state to send back with the next engine chunk."""

    chunk: Completion
    stream_state: dict[str, Any]


class ModelCard(ResponseModel):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    max_model_len: int


class ModelList(ResponseModel):
    """The models served here."""

    object: Literal["list"]
    data: list[ModelCard]


class TokenizeResponse(ResponseModel):
    """Token ids of a text or of a rendered chat."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeResponse(ResponseModel):
    """The text that the ids stand for, special tokens included."""

    prompt: str


class VersionResponse(ResponseModel):
    """The version of this server."""

    version: str


class LoadResponse(ResponseModel):
    """How many requests are being answered now."""

    server_load: int
    engines: list[dict[str, Any]] | None = Field(
        None, description="with a gateway: each engine's url, role, health, and outstanding requests and tokens"
    )
