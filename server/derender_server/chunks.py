"""Streaming without memory: a chunk and the state that came with it in, events and the next state out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from derender_core.errors import InputError
from derender_core.events import Event, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from derender_core.replay import replay
from derender_core.stream import Stream
from derender_server.limits import Limits
from derender_server.logprobs import unfinished
from derender_server.sequence import Output, Request, open_stream, run_chunk
from derender_server.stream_state import Envelope, ReplayForm, StateCodec
from derender_server.wire.derender import GenerateStreamChoice, GenerateStreamResponse

__all__ = ["ChunkInput", "advance", "begin"]

LONGEST_CHARACTER = 4  # bytes of a character in UTF-8, so also the most tokens that one is spread over


class ChunkInput(msgspec.Struct, frozen=True, gc=False):
    """What a streaming call hands in besides the request.

    Args:
        chunk: the engine's chunk.
        state: the state of the call before, as the client brought it or, in the same process, as it is; or None.
        prompt_token_ids: the prompt, or None.
        needs_prompt: a parser runs, which must know the prompt once.
        id_prefix: of the response's id, when the engine gives none.
    """

    chunk: GenerateStreamResponse
    state: Mapping[str, Any] | Envelope | None
    prompt_token_ids: Sequence[int] | None
    needs_prompt: bool
    id_prefix: str

    @property
    def any_prompt(self) -> Sequence[int] | None:
        """The prompt as given, from whoever gave it."""
        return self.prompt_token_ids if self.prompt_token_ids is not None else self.chunk.prompt_token_ids

    def prompt(self, limits: Limits) -> Sequence[int] | None:
        """The prompt, checked.

        Raises:
            InputError: it is needed and missing, too long, or has an id out of range.
        """
        given = self.any_prompt
        if given is None and self.needs_prompt:
            raise InputError(
                "prompt_token_ids is required on the first call of a stream, because it tells whether the prompt left "
                "reasoning open",
                "prompt_token_ids",
            )
        limits.check_ids(
            given, "prompt_token_ids" if given is self.prompt_token_ids else "generate_chunk.prompt_token_ids"
        )
        return given


def begin(given: ChunkInput, codec: StateCodec) -> Envelope | ReplayForm:
    """Where the stream stands before this chunk: at its start, or where the state says.

    Raises:
        StateError: the state was not made here, or not for this configuration.
    """
    if isinstance(given.state, Envelope):
        return given.state
    if given.state is not None:
        return codec.read(given.state)
    return _new_envelope(given)


def advance(
    request: Request, given: ChunkInput, at: Envelope | ReplayForm, choice: GenerateStreamChoice | None
) -> tuple[Envelope, Output | None]:
    """Run a chunk. The envelope is brought up to date, except for what only the caller knows.

    Args:
        request: what all chunks share.
        given: the call.
        at: what ``begin`` gave.
        choice: the chunk's choice; None for a chunk that only reports usage.

    Returns:
        The envelope; and the output, None without a choice.

    Raises:
        InputError: the prompt is missing, or the stream has grown too long.
        StateError: the state is not one of this configuration.
    """
    early: list[Event] = []
    if isinstance(at, ReplayForm):
        envelope, early = _rebuild(request, given, at)
    else:
        envelope = at
    if choice is None:
        return envelope, None
    stream = envelope.stream
    if stream is None or envelope.request is not request or (choice.stop_reason and not request.text.stop):
        # The last: a stop string that only the engine knew of changes what the stream looks for.
        stream = envelope.stream = _open(request, given, envelope, choice)
        envelope.request = request
    count = len(choice.token_ids or ())
    request.limits.check_total(envelope.prompt, envelope.tokens, count)
    output = run_chunk(request, choice, stream)
    output.events[:0] = early
    envelope.tokens += count
    begun = [event.index + 1 for event in output.events if isinstance(event, ToolCallStart)]
    envelope.calls = max([envelope.calls, *begun])
    envelope.reasoning = stream.reasoning_tokens
    return envelope, output


def _open(request: Request, given: ChunkInput, envelope: Envelope, choice: GenerateStreamChoice) -> Stream:
    """The stream that the envelope is about, at its start or where the envelope says."""
    core = envelope.core if envelope.stream is None else envelope.stream.state
    if core is not None:
        return open_stream(request, core, None, choice)
    prompt = given.prompt(request.limits)
    envelope.prompt = len(prompt or ())
    return open_stream(request, None, prompt, choice)


def _new_envelope(given: ChunkInput) -> Envelope:
    return Envelope(given.chunk.request_id or f"{given.id_prefix}{uuid.uuid4().hex}", int(time.time()))


def _rebuild(request: Request, given: ChunkInput, form: ReplayForm) -> tuple[Envelope, list[Event]]:
    """A stream begun on another server, and what that server had not yet told the client of its calls."""
    request.limits.check_ids(form.token_ids, "stream_state.output_token_ids")
    prompt = given.prompt(request.limits)
    request.limits.check_total(len(prompt or ()), len(form.token_ids), 0)
    stream = open_stream(request, None, prompt)
    events = [event for chunk in replay(stream, form.token_ids, form.chunk_lens) for event in chunk]
    envelope = _new_envelope(given)
    envelope.stream, envelope.request = stream, request
    envelope.role_sent = form.role_sent
    envelope.prompt, envelope.tokens = len(prompt or ()), len(form.token_ids)
    envelope.calls = form.calls_sent or 0
    envelope.reasoning = stream.reasoning_tokens
    envelope.call_ids = form.call_ids
    envelope.offset = sum(len(event.text) for event in events if isinstance(event, Text))
    last = form.token_ids[-LONGEST_CHARACTER:]
    envelope.pending = unfinished(b"".join(request.model.tokenizer.token_bytes(token_id) for token_id in last))
    calls = [event for event in events if isinstance(event, (ToolCallStart, ToolCallArguments, ToolCallEnd))]
    if form.calls_sent is None:
        envelope.calls = sum(isinstance(event, ToolCallStart) for event in calls)
    return envelope, [event for event in calls if event.index >= envelope.calls]
