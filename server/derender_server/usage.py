"""Token counts, as OpenAI bodies state them."""

from __future__ import annotations

from typing import Any

from derender_core.errors import InputError
from derender_server.stream_state import Envelope
from derender_server.wire.derender import EngineUsage

__all__ = ["check_prompt_tokens", "stream_usage", "usage_body"]


def check_prompt_tokens(count: int | None, param: str = "prompt_tokens") -> int:
    """The count that a request gives, 0 when it gives none.

    Raises:
        InputError: it is negative.
    """
    if count is not None and count < 0:
        raise InputError(f"{param} must not be negative", param)
    return count or 0


def usage_body(prompt: int, completion: int, reasoning: int | None) -> dict[str, Any]:
    """A ``usage`` object.

    Args:
        prompt: tokens of the prompt.
        completion: tokens of the output, stop tokens included.
        reasoning: those of them that were reasoning; None when no reasoning parser tells.
    """
    body: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return body


def stream_usage(
    engine: EngineUsage, envelope: Envelope, prompt_tokens: int | None, *, reasoning: bool
) -> dict[str, Any]:
    """The ``usage`` of a streamed chunk.

    Args:
        engine: the engine's counts.
        envelope: the stream; counts what the engine does not.
        prompt_tokens: the request's count, which goes before the engine's.
        reasoning: a reasoning parser runs, so that the stream knows its reasoning tokens.
    """
    prompt = next((count for count in (prompt_tokens, engine.prompt_tokens) if count is not None), envelope.prompt)
    completion = envelope.tokens if engine.completion_tokens is None else engine.completion_tokens
    body = usage_body(prompt, completion, envelope.reasoning if reasoning and envelope.has_begun else None)
    if engine.prompt_tokens_details is not None:
        body["prompt_tokens_details"] = engine.prompt_tokens_details
    return body
