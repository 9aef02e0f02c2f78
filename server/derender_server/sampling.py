"""A request's sampling parameters, completed: the request, then the model's defaults, then neutral values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derender_core.errors import InputError
from derender_server.limits import Limits
from derender_server.model import ServedModel
from derender_server.wire.generate import SamplingParams
from derender_server.wire.requests import ChatCompletionRequest, CompletionRequest

__all__ = ["chat_sampling", "check_prompt_fits", "completion_sampling", "prompt_room"]

COMPLETION_MAX_TOKENS = 16
# The fields that a model's generation_config.json gives defaults for, and their neutral values.
NEUTRAL: Mapping[str, float | None] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": None,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}


def chat_sampling(
    request: ChatCompletionRequest,
    model: ServedModel,
    limits: Limits,
    prompt_length: int,
    *,
    parsers_need_special_tokens: bool = False,
    structured_outputs: dict[str, Any] | None = None,
) -> SamplingParams:
    """The parameters of a chat request.

    Args:
        request: the request.
        model: gives defaults and the context length.
        limits: what a request may ask for.
        prompt_length: tokens of the rendered prompt.
        parsers_need_special_tokens: text without special tokens would not be enough for the parsers.
        structured_outputs: the constraint on the output.

    Raises:
        InputError: a field out of its range, or a prompt and an output that are together too long.
    """
    field = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    asked = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    max_tokens = _max_tokens(asked, field, model, prompt_length, default=None, prompt_field="messages")
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    _check_logprobs(logprobs, "top_logprobs", limits)
    return _sampling(
        request,
        model,
        limits,
        max_tokens=max_tokens,
        logprobs=logprobs,
        prompt_logprobs=request.prompt_logprobs,
        skip_special_tokens=request.skip_special_tokens and not parsers_need_special_tokens,
        structured_outputs=structured_outputs,
    )


def completion_sampling(
    request: CompletionRequest,
    model: ServedModel,
    limits: Limits,
    prompt_length: int,
    *,
    prompt_field: str = "prompt",
    structured_outputs: dict[str, Any] | None = None,
) -> SamplingParams:
    """The parameters of one prompt of a text completion request. Arguments and errors as for ``chat_sampling``."""
    asked = request.max_tokens
    if asked == 0:  # echo of the prompt alone: engines have no request without output
        asked = 1
    max_tokens = _max_tokens(
        asked, "max_tokens", model, prompt_length, default=COMPLETION_MAX_TOKENS, prompt_field=prompt_field
    )
    _check_logprobs(request.logprobs, "logprobs", limits)
    echoed = request.logprobs if request.echo else None
    return _sampling(
        request,
        model,
        limits,
        max_tokens=max_tokens,
        logprobs=request.logprobs,
        prompt_logprobs=echoed if request.prompt_logprobs is None else request.prompt_logprobs,
        skip_special_tokens=request.skip_special_tokens,
        structured_outputs=structured_outputs,
    )


def prompt_room(request: ChatCompletionRequest | CompletionRequest, model: ServedModel) -> int:
    """How many prompt tokens leave room for the output that the request asks for; at least one."""
    asked = getattr(request, "max_completion_tokens", None) or request.max_tokens
    return max(model.max_model_len - (asked or 1), 1)


def check_prompt_fits(prompt_length: int, model: ServedModel, param: str) -> None:
    """Refuse a prompt that leaves no room for output.

    Raises:
        InputError: states both lengths.
    """
    if prompt_length >= model.max_model_len:
        raise InputError(
            f"the prompt has {prompt_length} tokens, and the model's context length is {model.max_model_len} tokens: "
            "no room is left for output; shorten the prompt",
            param,
        )


def _max_tokens(
    asked: int | None, field: str, model: ServedModel, prompt_length: int, *, default: int | None, prompt_field: str
) -> int:
    check_prompt_fits(prompt_length, model, prompt_field)
    room = model.max_model_len - prompt_length
    if asked is None:
        configured = model.generation_config.get("max_new_tokens")
        usable = configured if isinstance(configured, int) and configured > 0 else None
        return min(limit for limit in (room, default, usable) if limit is not None)
    if asked > room:
        raise InputError(
            f"the model's context length is {model.max_model_len} tokens; the prompt has {prompt_length} and {field} "
            f"asks for {asked} more. Lower {field} to at most {room}, or shorten the prompt",
            field,
        )
    return asked


def _sampling(
    request: ChatCompletionRequest | CompletionRequest, model: ServedModel, limits: Limits, **settled: Any
) -> SamplingParams:
    if request.min_tokens > settled["max_tokens"]:
        raise InputError(
            f"min_tokens ({request.min_tokens}) must not be greater than max_tokens ({settled['max_tokens']})",
            "min_tokens",
        )
    if request.stream and request.prompt_logprobs:
        raise InputError("prompt_logprobs cannot be streamed; leave it out, or set stream to false", "prompt_logprobs")
    _check_logprobs(settled["prompt_logprobs"], "prompt_logprobs", limits)
    limits.check_ids(request.stop_token_ids, "stop_token_ids")
    limits.check_ids(request.allowed_token_ids, "allowed_token_ids")
    limits.check_ids(list(request.logit_bias or ()), "logit_bias")
    given = {name: getattr(request, name) for name in NEUTRAL}
    defaults: dict[str, Any] = {
        name: _default(model, name) if value is None else value for name, value in given.items()
    }
    return SamplingParams(
        n=request.n,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        seed=request.seed,
        stop=request.stop_strings,
        stop_token_ids=request.stop_token_ids or [],
        bad_words=request.bad_words or [],
        min_tokens=request.min_tokens,
        spaces_between_special_tokens=request.spaces_between_special_tokens,
        ignore_eos=request.ignore_eos,
        logit_bias=request.logit_bias,
        allowed_token_ids=request.allowed_token_ids,
        extra_args=request.vllm_xargs,
        **defaults,
        **settled,
    )


def _default(model: ServedModel, name: str) -> float | None:
    value = model.generation_config.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return value if usable else NEUTRAL[name]


def _check_logprobs(value: int | None, param: str, limits: Limits) -> None:
    """-1 asks for the whole vocabulary, which only a server without a limit gives."""
    if value is None or limits.max_logprobs < 0 or 0 <= value <= limits.max_logprobs:
        return
    raise InputError(f"{param} is {value}; at most {limits.max_logprobs} (--max-logprobs) are allowed", param)
