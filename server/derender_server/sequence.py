"""One choice of an engine's answer, whole or as a chunk, through the detokenizer and the parsers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from derender_core.errors import InputError, StateError
from derender_core.events import Event
from derender_core.inputs import ParseContext
from derender_core.pipeline import Pipeline
from derender_core.stream import Stream
from derender_core.stream_setup import StreamSetup
from derender_server.limits import Limits
from derender_server.model import ServedModel
from derender_server.stops import Ending, TextOptions, find_ending
from derender_server.wire.derender import GenerateChoice, GenerateResponse, GenerateStreamChoice, GenerateStreamResponse

__all__ = ["Output", "Request", "check_chunk", "check_response", "run_chunk", "run_whole"]


@dataclass(frozen=True)
class Request:
    """What all choices of one request share.

    Args:
        model: the served model.
        limits: what is accepted.
        pipeline: the parsers that run.
        context: what the parsers know.
        text: which tokens are text.
    """

    model: ServedModel
    limits: Limits
    pipeline: Pipeline
    context: ParseContext
    text: TextOptions

    @cached_property
    def setup(self) -> StreamSetup:
        """What the parsers need, asked of them once for all choices and chunks."""
        return StreamSetup(
            self.model.tokenizer, self.pipeline, self.context, skip_special_tokens=self.text.skip_special_tokens
        )

    def ending(self, token_ids: Sequence[int], finish_reason: str | None, stop_reason: int | str | None) -> Ending:
        """How these ids end."""
        return find_ending(
            token_ids,
            finish_reason,
            stop_reason,
            self.text,
            eos_token_id=self.model.eos_token_id,
            eos_token_ids=self.model.eos_token_ids,
        )


class Output(msgspec.Struct, frozen=True, gc=False):
    """What a choice, or a chunk of one, gave.

    Args:
        events: what the parsers said.
        stream: the stream behind them, with its state and counters.
        token_ids: all ids, the stop token included.
        finish_reason: the engine's, or ``"stop"`` at a stop string; None while it goes on, and behind a stop string.
        stop_reason: what ended it, as the client is told.
    """

    events: list[Event]
    stream: Stream
    token_ids: Sequence[int]
    finish_reason: str | None
    stop_reason: int | str | None


def run_whole(request: Request, choice: GenerateChoice, prompt_token_ids: Sequence[int] | None) -> Output:
    """Parse a complete choice, which ``check_response`` has passed."""
    token_ids = choice.token_ids or ()
    finish_reason = choice.finish_reason or "stop"
    ending = request.ending(token_ids, finish_reason, choice.stop_reason)
    known = choice.stop_reason if finish_reason == "stop" and isinstance(choice.stop_reason, str) else ""
    stop = request.text.stop_strings(known) if known else request.text.stop_strings()
    stream = Stream.of(request.setup, prompt_token_ids=prompt_token_ids, stop=stop)
    events = stream.push(ending.text_ids, final=True, finish_reason=finish_reason, checked=True)
    if stream.stopped is not None:
        return Output(events, stream, token_ids, "stop", stream.stopped)
    return Output(events, stream, token_ids, finish_reason, ending.stop_reason)


def open_stream(
    request: Request,
    state: dict[str, Any] | None,
    prompt_token_ids: Sequence[int] | None,
    choice: GenerateStreamChoice | None = None,
) -> Stream:
    """The stream of a choice that comes in chunks, new or where ``state`` left it.

    Args:
        request: what all chunks share.
        state: of the stream before this chunk, or None.
        prompt_token_ids: for a new stream.
        choice: the next chunk, when it is known: a stop string that only the engine knew of may end it.

    Raises:
        StateError: ``state`` is not one of this configuration.
    """
    stop = request.text.stop_strings()
    if stop is None and choice is not None and isinstance(choice.stop_reason, str) and choice.stop_reason:
        stop = request.text.stop_strings(choice.stop_reason)
    try:
        return Stream.of(request.setup, prompt_token_ids=prompt_token_ids, stop=stop, state=state)
    except StateError as error:
        raise StateError(str(error), "stream_state.s") from error


def run_chunk(request: Request, choice: GenerateStreamChoice, stream: Stream) -> Output:
    """Parse the next chunk of a choice, which ``check_chunk`` has passed."""
    token_ids = choice.token_ids or ()
    ending = request.ending(token_ids, choice.finish_reason, choice.stop_reason)
    has_ended = stream.stopped is not None
    final = choice.finish_reason is not None
    events = stream.push(ending.text_ids, final=final, finish_reason=choice.finish_reason, checked=True)
    if has_ended:
        return Output(events, stream, token_ids, None, None)
    if stream.stopped is not None:
        return Output(events, stream, token_ids, "stop", stream.stopped)
    return Output(events, stream, token_ids, choice.finish_reason, ending.stop_reason)


def check_response(response: GenerateResponse, limits: Limits, param: str) -> None:
    """Check an engine's whole answer before any work is done with it.

    Raises:
        InputError: it is too large, is text already, has a choice without tokens, or an id out of range.
    """
    _check_mode(response.output_mode, param)
    limits.check_length(response.prompt_logprobs, f"{param}.prompt_logprobs")
    limits.check_ids(response.prompt_token_ids, f"{param}.prompt_token_ids")
    for at, choice in enumerate(response.choices):
        where = f"{param}.choices.{at}"
        if not choice.token_ids:
            raise InputError(
                f"{where}.token_ids is empty; choice {choice.index} has nothing to derender", f"{where}.token_ids"
            )
        limits.check_ids(choice.token_ids, f"{where}.token_ids")
        limits.check_logprobs(choice.logprobs, f"{where}.logprobs")


def check_chunk(chunk: GenerateStreamResponse, limits: Limits) -> GenerateStreamChoice | None:
    """The one choice of a chunk, checked; None when the chunk has none.

    Raises:
        InputError: more than one choice, text already, too large, or an id out of range.
    """
    _check_mode(chunk.output_mode, "generate_chunk")
    if len(chunk.choices) > 1:
        raise InputError(
            f"generate_chunk has {len(chunk.choices)} choices; at most one choice per chunk, with a stream_state for "
            "each index",
            "generate_chunk.choices",
        )
    if not chunk.choices:
        return None
    choice = chunk.choices[0]
    limits.check_ids(choice.token_ids, "generate_chunk.choices.0.token_ids")
    limits.check_logprobs(choice.logprobs, "generate_chunk.choices.0.logprobs")
    return choice


def _check_mode(output_mode: str | None, param: str) -> None:
    if output_mode not in (None, "tokens"):
        raise InputError(
            f'{param}.output_mode is {output_mode!r}; only "tokens" can be derendered, other outputs are text already',
            f"{param}.output_mode",
        )
