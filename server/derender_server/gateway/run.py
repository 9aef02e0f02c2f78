"""What becomes of the chunks of one engine request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from derender_core.errors import InputError
from derender_server.gateway.engine_errors import EngineError
from derender_server.wire.decode import decode_body
from derender_server.wire.derender import (
    EngineLogprobs,
    EngineUsage,
    GenerateChoice,
    GenerateResponse,
    GenerateStreamChoice,
    GenerateStreamResponse,
)
from derender_server.wire.generate import GenerateRequest

__all__ = ["CollectingRun", "Piece", "Run", "read_response", "total_usage", "unusable"]

log = logging.getLogger("derender")

FAILED = "error"
"""``finish_reason`` of engines that failed while they generated."""

BROKEN = "The engine failed while it generated"


def unusable(error: InputError) -> EngineError:
    """What derendering refuses is the engine's fault: the client has seen none of it."""
    return EngineError(502, f"The engine's answer cannot be used: {error}", None)


def read_response(request: GenerateRequest, data: bytes) -> GenerateResponse:
    """An engine's whole response.

    Raises:
        EngineError: it is not what engines send, or lacks choices.
    """
    try:
        response = decode_body(data, GenerateResponse)
    except InputError as error:
        raise unusable(error) from error
    count = request.sampling_params.n
    if sorted(choice.index for choice in response.choices) != list(range(count)):
        raise EngineError(502, f"The engine's answer does not have the {count} choices that it was asked for", None)
    if any(choice.finish_reason == FAILED for choice in response.choices):
        raise EngineError(502, BROKEN, None)
    response.request_id = request.request_id
    return response


@dataclass(frozen=True, slots=True)
class Piece:
    """What one choice of an engine's chunk became.

    Args:
        parts: the OpenAI chunk, or the events.
        tokens: of the engine's.
    """

    parts: list[dict[str, Any]]
    tokens: int


@dataclass(slots=True)
class Run:
    """One engine request: takes the engine's chunks, and knows when all its choices have finished.

    Args:
        request: what the engine was asked.
        push: derenders a chunk: gives the OpenAI chunk or the events, and whether its choice has finished.
        usage: gives the counts that every chunk is to state; None when none is.
        output: tokens so far.
        details: what the engine told of the prompt's tokens.
        cut: a stop string ended a choice, of which the engine knows nothing.

    Attributes:
        open: the choices that have not finished.
    """

    request: GenerateRequest
    push: Callable[[GenerateStreamResponse], tuple[list[dict[str, Any]], bool]]
    usage: Callable[[], EngineUsage] | None = None
    output: int = 0
    details: dict[str, Any] | None = None
    cut: bool = False
    open: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.open = set(range(self.request.sampling_params.n))

    def check_end(self) -> None:
        """The engine's stream is over.

        Raises:
            EngineError: a choice has not finished.
        """
        if self.open:
            raise EngineError(502, "The engine's stream ended before the answer was complete", None)

    def feed(self, data: bytes) -> list[Piece]:
        """What a chunk of the engine's became.

        Raises:
            EngineError: it is not what engines send, or says that the engine failed.
            ParserError: a parser failed; names it.
        """
        chunk = self.read(data)
        choices, pieces = chunk.choices, []
        for choice in choices:
            if not 0 <= choice.index < self.request.sampling_params.n:
                raise EngineError(502, f"The engine sent a choice {choice.index}, which nobody asked for", None)
            if choice.index in self.open:  # else it goes on behind a stop string
                chunk.choices = [choice]
                pieces.append(self._take(chunk, choice))
        return pieces

    def read(self, data: bytes) -> GenerateStreamResponse:
        """A chunk; the engine's own usage is taken out of it.

        Raises:
            EngineError: it is not what engines send, or says that the engine failed.
        """
        try:
            chunk = decode_body(data, GenerateStreamResponse)
        except InputError as error:
            raise unusable(error) from error
        if not chunk.choices and chunk.usage is None and b'"error"' in data:
            log.error("the engine failed, request %s: %s", self.request.request_id, data.decode(errors="replace"))
            raise EngineError(502, BROKEN, None)
        if chunk.usage is not None:
            self.details = chunk.usage.prompt_tokens_details or self.details
            chunk.usage = None
        chunk.request_id = self.request.request_id
        return chunk

    def _take(self, chunk: GenerateStreamResponse, choice: GenerateStreamChoice) -> Piece:
        if choice.finish_reason == FAILED:
            raise EngineError(502, BROKEN, None)
        tokens = len(choice.token_ids or ())
        self.output += tokens
        if self.usage is not None:
            chunk.usage = self.usage()
        try:
            parts, finished = self.push(chunk)
        except InputError as error:
            raise unusable(error) from error
        if finished:
            self.open.discard(choice.index)
            self.cut = self.cut or choice.finish_reason is None
        return Piece(parts, tokens)


def total_usage(runs: Sequence[Run]) -> EngineUsage:
    """The tokens of an answer, over all its engine requests, as an engine would state them."""
    prompt, output = sum(len(run.request.token_ids) for run in runs), sum(run.output for run in runs)
    return EngineUsage.model_construct(
        prompt_tokens=prompt,
        completion_tokens=output,
        total_tokens=prompt + output,
        prompt_tokens_details=next((run.details for run in runs if run.details), None),
    )


@dataclass(slots=True)
class Growing:
    """A choice that is collected."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass(slots=True)
class CollectingRun(Run):
    """A run whose chunks are put together again: its stream only tells when a stop string has ended it."""

    growing: dict[int, Growing] = field(default_factory=dict)

    def _take(self, chunk: GenerateStreamResponse, choice: GenerateStreamChoice) -> Piece:
        own = self.growing.setdefault(choice.index, Growing())
        own.token_ids += choice.token_ids or ()
        if choice.logprobs is not None:
            own.logprobs += choice.logprobs.content or ()
        own.finish_reason, own.stop_reason = choice.finish_reason, choice.stop_reason
        return Run._take(self, chunk, choice)

    def response(self) -> GenerateResponse:
        """The engine's whole response, as far as it counts."""
        return GenerateResponse.model_construct(
            request_id=self.request.request_id,
            choices=[
                GenerateChoice.model_construct(
                    index=index,
                    token_ids=own.token_ids,
                    finish_reason=own.finish_reason or "stop",
                    stop_reason=own.stop_reason,
                    logprobs=EngineLogprobs.model_construct(content=own.logprobs) if own.logprobs else None,
                )
                for index, own in sorted(self.growing.items())
            ],
            usage=EngineUsage.model_construct(prompt_tokens_details=self.details),
        )
