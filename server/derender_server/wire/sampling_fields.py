"""Fields that chat and text completion requests share: sampling, engine and output options."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from derender_server.wire.chat_messages import VerbatimModel
from derender_server.wire.json_object import JsonObject, check_depth

__all__ = ["JsonSchemaFormat", "ResponseFormat", "SamplingFields", "StreamOptions", "StructuredOutputs"]

TokenId = Annotated[int, Field(ge=0)]
MAX_CHOICES = 16384
INT64 = 2**63


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class StructuredOutputs(BaseModel):
    """How the output is constrained. Exactly one constraint; other fields are options of the engine's."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    json_: str | dict[str, Any] | None = Field(default=None, alias="json", description="A JSON Schema.")
    json_object: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: str | None = Field(default=None, description="JSON text of a structural tag.")

    @model_validator(mode="before")
    @classmethod
    def _not_too_deep(cls, data: Any) -> Any:
        return check_depth(data) if isinstance(data, dict) else data

    @field_validator("json_")
    @classmethod
    def _is_json(cls, value: str | dict[str, Any] | None) -> dict[str, Any] | None:
        if not isinstance(value, str):
            return value
        try:
            schema = msgspec.json.decode(
                value
            )  # unlike json, it takes no half surrogate pairs, which no body can carry
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the text is not JSON: {error}") from error
        if not isinstance(schema, dict):
            raise ValueError("the text must hold a JSON Schema object")
        return check_depth(schema)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.constraint()) != 1:
            raise ValueError("give exactly one of json, json_object, regex, choice, grammar, structural_tag")
        return self

    def constraint(self) -> dict[str, Any]:
        """The constraint alone, under its wire name."""
        every = {
            "json": self.json_,
            "json_object": self.json_object or None,
            "regex": self.regex,
            "choice": self.choice,
            "grammar": self.grammar,
            "structural_tag": self.structural_tag,
        }
        return {key: value for key, value in every.items() if value is not None}

    def to_engine(self) -> dict[str, Any]:
        """The constraint and the engine options beside it."""
        options = {key: value for key, value in (self.model_extra or {}).items() if value is not None}
        return self.constraint() | options


class JsonSchemaFormat(BaseModel):
    """The schema of a ``json_schema`` response format."""

    model_config = ConfigDict(populate_by_name=True)

    name: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(VerbatimModel):
    """The form that the answer must have."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema" and (self.json_schema is None or self.json_schema.schema_ is None):
            raise ValueError("a json_schema response format needs json_schema.schema")
        return self

    def to_engine(self) -> dict[str, Any] | None:
        """The constraint that it means, or None for plain text."""
        match self.type:
            case "text":
                return None
            case "json_object":
                return {"json_object": True}
            case "json_schema":
                return {"json": self.json_schema.schema_ if self.json_schema else None}
            case "structural_tag":
                return {"structural_tag": json.dumps(self.raw, ensure_ascii=False)}


class SamplingFields(BaseModel):
    """What both request kinds have in common. Unknown fields are ignored: clients add some every release."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None

    n: int = Field(default=1, ge=1, le=MAX_CHOICES)
    max_tokens: int | None = Field(default=None, ge=0)
    min_tokens: int = Field(default=0, ge=0)
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=-INT64, lt=INT64)
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    bad_words: list[str] | None = None
    logit_bias: dict[TokenId, float] | None = None
    allowed_token_ids: list[TokenId] | None = Field(default=None, min_length=1)
    prompt_logprobs: int | None = Field(default=None, ge=-1)
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: int | None = Field(
        default=None, ge=-1, description="Keep only the last so many prompt tokens; -1: as many as there is room for."
    )

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None

    request_id: str | None = Field(default=None, min_length=1, description="Replaces the random part of the id.")
    return_token_ids: bool | None = None
    return_token_offsets: bool = Field(default=False, description="Say where in the rendered text each token stands.")
    cache_salt: str | None = Field(default=None, min_length=1)
    priority: int = 0
    kv_transfer_params: JsonObject | None = None
    ec_transfer_params: JsonObject | None = None
    vllm_xargs: JsonObject | None = Field(default=None, description="Passed to the engine as extra_args.")
    user: str | None = None

    @field_validator("stream_options")
    @classmethod
    def _only_when_streaming(cls, value: StreamOptions | None, info: ValidationInfo) -> StreamOptions | None:
        if value is not None and not info.data.get("stream"):
            raise ValueError("stream_options needs stream: true")
        return value

    @field_validator("min_tokens")
    @classmethod
    def _below_max_tokens(cls, value: int, info: ValidationInfo) -> int:
        limit = info.data.get("max_tokens")
        if limit is not None and value > limit:
            raise ValueError(f"min_tokens ({value}) must not be greater than max_tokens ({limit})")
        return value

    @field_validator("truncate_prompt_tokens")
    @classmethod
    def _keep_something(cls, value: int | None) -> int | None:
        if value == 0:
            raise ValueError("it must be at least 1, or -1")
        return value

    @field_validator("stop")
    @classmethod
    def _no_empty_stop(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and "" in value:
            raise ValueError("a stop string must not be empty")
        return value

    @property
    def stop_strings(self) -> list[str]:
        """``stop`` as a list; an empty string means none."""
        if isinstance(self.stop, list):
            return self.stop
        return [self.stop] if self.stop else []
