"""Bodies of text completions. They are plain decoding: no parser ever runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_core.events import Event, Text
from derender_server.limits import Limits
from derender_server.sequence import Output, check_response
from derender_server.wire.derender import DerenderCompletionRequest, GenerateResponse

__all__ = ["check_completion", "completion_choice", "same_transfer_params", "text_of"]

log = logging.getLogger("derender")


def check_completion(request: DerenderCompletionRequest, limits: Limits) -> None:
    """Check a one-shot request before any work is done with it.

    Raises:
        InputError: no responses, lists of unequal length, or what ``check_response`` refuses.
    """
    responses = request.generate_responses
    if not responses:
        raise InputError("generate_responses must not be empty", "generate_responses")
    limits.check_count(len(responses), "generate_responses")
    limits.check_count(sum(len(response.choices) for response in responses), "generate_responses.choices")
    for name, given in (("prompt_tokens", request.prompt_tokens), ("prompt_token_ids", request.prompt_token_ids)):
        if given is not None and len(given) != len(responses):
            raise InputError(
                f"{name} has {len(given)} entries for {len(responses)} generate_responses; give one for each", name
            )
    for at, prompt in enumerate(request.prompt_token_ids or ()):
        limits.check_ids(prompt, f"prompt_token_ids.{at}")
    for at, response in enumerate(responses):
        check_response(response, limits, f"generate_responses.{at}")


def completion_choice(
    index: int,
    output: Output,
    *,
    logprobs: dict[str, Any] | None,
    token_ids: Sequence[int] | None,
    prompt_token_ids: Sequence[int] | None,
) -> dict[str, Any]:
    """One choice of a one-shot completion.

    Args:
        index: running over all responses.
        output: the sequence.
        logprobs: its log probabilities, if any.
        token_ids: None unless the client wants ids.
        prompt_token_ids: None unless the client wants ids.
    """
    return {
        "index": index,
        "text": text_of(output.events),
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": token_ids,
        "prompt_token_ids": prompt_token_ids,
    }


def text_of(events: Iterable[Event]) -> str:
    """The text of a sequence that no parser looked at."""
    return "".join(event.text for event in events if isinstance(event, Text))


def same_transfer_params(responses: Sequence[GenerateResponse]) -> dict[str, Any] | None:
    """The ``kv_transfer_params`` of all responses; None when they disagree, which is logged."""
    first = responses[0].kv_transfer_params
    if all(response.kv_transfer_params == first for response in responses):
        return first
    log.warning("kv_transfer_params of the %d responses disagree; the completion has none", len(responses))
    return None
