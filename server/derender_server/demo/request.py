"""A ``GenerateRequest`` as the scripted engine reads it: the fields that change what it says. The rest is ignored."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from derender_server.wire.derender import WireModel

__all__ = ["EngineRequest"]


class EngineSampling(WireModel):
    """The sampling parameters that a script can follow."""

    n: int | None = 1
    max_tokens: int | None = Field(default=None, description="null: as many as there is room for")
    min_tokens: int | None = 0
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = False
    logprobs: int | None = Field(default=None, description="alternatives to report for each token")
    structured_outputs: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = Field(default=None, description="the engine's switches, as `demo_engine`")


class EngineStreamOptions(WireModel):
    """Options of a stream."""

    include_usage: bool | None = False


class EngineParseContext(WireModel):
    """What render says about the request. Without it, tools are looked for in the prompt."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None


class EngineRequest(WireModel):
    """What the engine is asked to generate."""

    token_ids: list[int]
    sampling_params: EngineSampling = Field(default_factory=EngineSampling)
    request_id: str | None = None
    model: str | None = None
    stream: bool | None = False
    stream_options: EngineStreamOptions | None = None
    return_token_ids: bool | None = None
    kv_transfer_params: dict[str, Any] | None = None
    parse_context: EngineParseContext | None = None
