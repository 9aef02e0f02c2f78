"""What derendering for the Responses and for the Messages API has in common: everything but the bodies."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from derender_core.errors import InputError, StateError
from derender_server.api_output import TokenCounts
from derender_server.chat import CallIds
from derender_server.chunks import ChunkInput, advance, begin
from derender_server.deployment import Deployment
from derender_server.parts import Part, PartTracker, whole_parts
from derender_server.prepared import Prepared, PreparedRequests
from derender_server.sequence import Output, check_chunk, check_response, run_whole
from derender_server.stream_state import Envelope, ReplayForm, StateCodec
from derender_server.usage import check_prompt_tokens
from derender_server.wire.api_derender import OneShotRequest, StreamRequest
from derender_server.wire.derender import GenerateChoice, GenerateResponse

__all__ = ["ApiDerenderer", "ChunkAnswer", "WholeAnswer"]

V = TypeVar("V", bound=BaseModel)
FINISHED = "f"


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """A whole answer.

    Args:
        model: the served name.
        ids: of the response.
        parts: its parts with their texts, and whether they are complete.
        finish_reason: the engine's.
        stop_reason: what ended it, as the client is told.
        counts: for usage.
    """

    model: str
    ids: CallIds
    parts: list[tuple[Part, str, bool]]
    finish_reason: str
    stop_reason: int | str | None
    counts: TokenCounts


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """What a chunk gave that has a choice.

    Args:
        model: the served name.
        ids: of the response.
        first: it is the first of the stream.
        tracker: the parts of the stream, as they are before the events of ``output``.
        output: the events, and how the output ended, if it did.
        counts: for usage, this chunk included.
    """

    model: str
    ids: CallIds
    first: bool
    tracker: PartTracker
    output: Output
    counts: TokenCounts


class ApiDerenderer(Generic[V]):
    """Runs outputs of the engine for one API.

    Args:
        deployment: the setup.
        requests: reads the requests of the API.
        wire: the API; its states are of no use to another.
        id_prefix: of the response's id, when the engine gives none.
        call_prefix: of the ids of calls.
    """

    def __init__(
        self,
        deployment: Deployment,
        requests: PreparedRequests[V],
        wire: Literal["responses", "messages"],
        *,
        id_prefix: str,
        call_prefix: str,
    ) -> None:
        self.codec: StateCodec = deployment.api_codec(wire)
        self._deployment, self._requests = deployment, requests
        self._id_prefix, self._call_prefix = id_prefix, call_prefix

    def whole(self, request: OneShotRequest, view: V | None) -> WholeAnswer:
        """Parse a whole answer.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        deployment, response = self._deployment, request.generate_response
        name = deployment.model.resolve_name(request.model)
        deployment.limits.check_ids(request.prompt_token_ids, "prompt_token_ids")
        check_prompt_tokens(request.prompt_tokens)
        choice = _one_choice(response)
        check_response(response, deployment.limits, "generate_response")
        call, options = self._requests.of(view, whole=True)
        prompt = request.prompt_token_ids if request.prompt_token_ids is not None else response.prompt_token_ids
        output = run_whole(call, choice, prompt)
        finish_reason = output.finish_reason or "stop"
        request_id = response.request_id or f"{self._id_prefix}{uuid.uuid4().hex}"
        reasoning = output.stream.reasoning_tokens
        return WholeAnswer(
            name,
            self._ids(request_id, choice.index),
            whole_parts(
                output.events,
                finish_reason,
                show_reasoning=bool(options.reasoning_fields),
                max_calls=options.max_calls,
            ),
            finish_reason,
            output.stop_reason,
            TokenCounts.of(response.usage, request.prompt_tokens, len(prompt or ()), len(output.token_ids), reasoning),
        )

    def prepare(self, view: V | None) -> Prepared:
        """What a request means for its stream, for callers that keep it.

        Raises:
            InputError: the request is missing and needed, or a field is wrong; names it.
        """
        return self._requests.of(view, whole=False)

    def advance(
        self, request: StreamRequest, state: Mapping[str, Any] | Envelope | None, prepared: Prepared
    ) -> tuple[Envelope, ChunkAnswer | None]:
        """Parse a chunk. The envelope is up to date, except for ``api``, which ``keep`` sets.

        Args:
            request: the call.
            state: of the chunk before.
            prepared: what ``prepare`` gave.

        Returns:
            The envelope; and the answer, None for a chunk that only reports usage or comes behind a stop string.

        Raises:
            InputError: the request is wrong, or the stream has ended already; names the field.
            StateError: the state was not made here, or is in the replay form, which tells nothing of the events so far.
            ParserError: a parser failed; names it.
        """
        deployment, chunk = self._deployment, request.generate_chunk
        name = deployment.model.resolve_name(request.model)
        check_prompt_tokens(request.prompt_tokens)
        choice = check_chunk(chunk, deployment.limits)
        call, options = prepared
        prompt = request.prompt_token_ids
        given = ChunkInput(chunk, state, prompt, deployment.has_parser, self._id_prefix)
        at = begin(given, self.codec)
        if isinstance(at, ReplayForm):
            raise StateError(
                "stream_state is in the replay form (output_token_ids), which only chat completions and completions "
                "take: it does not tell which events went out",
                "stream_state.output_token_ids",
            )
        api = at.api or {}
        has_ended = api.get(FINISHED) is True
        tracker = PartTracker(bool(options.reasoning_fields), options.max_calls, api)
        first = not at.role_sent
        envelope, output = advance(call, given, at, choice)
        if choice is None or output is None:
            return envelope, None
        if has_ended:
            if output.stream.stopped is None:
                raise InputError("the stream has ended: the chunk before had a finish_reason", "generate_chunk.choices")
            return envelope, None  # the engine went on: it does not see the text
        envelope.role_sent = True
        counts = TokenCounts.of(
            chunk.usage, request.prompt_tokens, envelope.prompt, envelope.tokens, envelope.reasoning
        )
        ids = self._ids(envelope.request_id, choice.index)
        return envelope, ChunkAnswer(name, ids, first, tracker, output, counts)

    def _ids(self, request_id: str, choice: int) -> CallIds:
        return CallIds(request_id, choice, prefix=self._call_prefix, length=self._deployment.call_id_length)

    @staticmethod
    def keep(envelope: Envelope, answer: ChunkAnswer, **more: int) -> None:
        """Put into the envelope what the next chunk must know, once all events of this one are made."""
        finished = {FINISHED: True} if answer.output.finish_reason is not None else {}
        envelope.api = {**answer.tracker.state, **more, **finished}


def _one_choice(response: GenerateResponse) -> GenerateChoice:
    if len(response.choices) != 1:
        raise InputError(
            f"generate_response has {len(response.choices)} choices; an answer of this API has exactly one",
            "generate_response.choices",
        )
    return response.choices[0]
