"""What render gives: a request for an engine that takes token ids (WIRE.md section 3)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from derender_server.wire.sampling_fields import StreamOptions

__all__ = ["GenerateRequest", "RenderedContext", "SamplingParams"]


def _is_none(value: object) -> bool:
    return value is None


class SamplingParams(BaseModel):
    """How the engine samples. Complete: nothing is left to the engine's own defaults."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = Field(default=None, exclude_if=_is_none, description="Absent when unset: engines have no null.")
    min_p: float = 0.0
    seed: int | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    bad_words: list[str] = []
    max_tokens: int
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    ignore_eos: bool = False
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    structured_outputs: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = None


class RenderedContext(BaseModel):
    """What derender needs to know of the request: send it back as ``chat_request``."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    include_reasoning: bool = True
    chat_template_kwargs: dict[str, Any] = {}
    history_tool_call_cnt: int = 0


class GenerateRequest(BaseModel):
    """A rendered request: token ids in, token ids out."""

    request_id: str
    token_ids: list[int]
    sampling_params: SamplingParams
    model: str
    stream: bool = False
    stream_options: StreamOptions | None = Field(default=None, exclude_if=_is_none, description="Only when streaming.")
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    features: None = None
    token_offsets: list[tuple[int, int]] | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    output_mode: Literal["tokens"] = "tokens"
    parse_context: RenderedContext | None = None
