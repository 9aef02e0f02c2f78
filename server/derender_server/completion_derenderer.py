"""Completion derendering, one-shot and streaming."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from derender_core.inputs import ParseContext
from derender_server.chunks import ChunkInput, advance, begin
from derender_server.completions import check_completion, completion_choice, same_transfer_params, text_of
from derender_server.deployment import Deployment
from derender_server.logprobs import completion_logprobs
from derender_server.sequence import Output, Request, check_chunk, run_whole
from derender_server.stops import TextOptions
from derender_server.stream_state import Envelope, StateCodec
from derender_server.usage import check_prompt_tokens, stream_usage, usage_body
from derender_server.wire.derender import (
    CompletionRequestView,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
    GenerateChoice,
    GenerateResponse,
    GenerateStreamChoice,
)

__all__ = ["CompletionDerenderer"]

NO_REQUEST = CompletionRequestView()


class CompletionDerenderer:
    """Turns engine outputs into text completions and their chunks. No parser ever runs.

    Args:
        deployment: the setup.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.codec: StateCodec = deployment.codec(parsers=False)

    def completion(self, request: DerenderCompletionRequest) -> dict[str, Any]:
        """A text completion, from an engine's whole response to each prompt.

        Raises:
            InputError: the request is wrong; names the field.
        """
        name = self._deployment.model.resolve_name(request.model)
        check_completion(request, self._deployment.limits)
        view = request.completion_request or NO_REQUEST
        counts = [
            check_prompt_tokens(count, f"prompt_tokens.{at}") for at, count in enumerate(request.prompt_tokens or ())
        ]
        call = self.prepare(view)
        choices: list[dict[str, Any]] = []
        tokens = 0
        for at, response in enumerate(request.generate_responses):
            prompt = request.prompt_token_ids[at] if request.prompt_token_ids is not None else response.prompt_token_ids
            for number, choice in enumerate(response.choices):
                output = run_whole(call, choice, prompt)
                tokens += len(output.token_ids)
                where = f"generate_responses.{at}.choices.{number}.logprobs"
                choices.append(
                    completion_choice(
                        len(choices),
                        output,
                        logprobs=self._logprobs(choice, output, view, Envelope("", 0), where),
                        token_ids=output.token_ids if view.return_token_ids else None,
                        prompt_token_ids=prompt if view.return_token_ids else None,
                    )
                )
        return {
            "id": _id(request.generate_responses[0]),
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
            "choices": choices,
            "usage": usage_body(sum(counts), tokens, None),
            "kv_transfer_params": same_transfer_params(request.generate_responses),
        }

    def chunk(self, request: DerenderCompletionStreamRequest) -> dict[str, Any]:
        """A text completion chunk and the next ``stream_state``, from an engine's chunk and the state before.

        Raises:
            InputError: the request is wrong; names the field.
            StateError: the state was not made here, or not for this configuration.
        """
        chunk, envelope = self.advance(request, request.stream_state)
        return {"chunk": chunk, "stream_state": self.codec.keep(envelope)}

    def prepare(self, view: CompletionRequestView | None) -> Request:
        """What a request means for its stream, for callers that keep it.

        Raises:
            InputError: a field is wrong; names it.
        """
        deployment = self._deployment
        text = TextOptions.of(view, "completion_request")
        return Request(deployment.model, deployment.limits, deployment.plain, ParseContext(), text)

    def advance(
        self,
        request: DerenderCompletionStreamRequest,
        state: Mapping[str, Any] | Envelope | None,
        prepared: Request | None = None,
    ) -> tuple[dict[str, Any], Envelope]:
        """As ``chunk``, for callers that keep the envelope instead of its state, and what the request means."""
        deployment, chunk = self._deployment, request.generate_chunk
        name = deployment.model.resolve_name(request.model)
        check_prompt_tokens(request.prompt_tokens)
        choice = check_chunk(chunk, deployment.limits)
        view = request.completion_request or NO_REQUEST
        given = ChunkInput(chunk, state, request.prompt_token_ids, False, "cmpl-")
        envelope, output = advance(prepared or self.prepare(view), given, begin(given, self.codec), choice)
        body: dict[str, Any] = {
            "id": envelope.request_id,
            "object": "text_completion",
            "created": envelope.created,
            "model": name,
            "choices": [],
        }
        if choice is not None and output is not None:
            body["choices"].append(self._chunk_choice(choice, output, view, envelope))
        if chunk.usage is not None:
            body["usage"] = stream_usage(chunk.usage, envelope, request.prompt_tokens, reasoning=False)
        return body, envelope

    def _chunk_choice(
        self, choice: GenerateStreamChoice, output: Output, view: CompletionRequestView, envelope: Envelope
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "index": choice.index,
            "text": text_of(output.events),
            "logprobs": self._logprobs(choice, output, view, envelope, "generate_chunk.choices.0.logprobs"),
            "finish_reason": output.finish_reason,
        }
        if output.finish_reason is not None:
            body["stop_reason"] = output.stop_reason
        if view.return_token_ids:
            body["token_ids"] = output.token_ids
        return body

    def _logprobs(
        self,
        choice: GenerateChoice | GenerateStreamChoice,
        output: Output,
        view: CompletionRequestView,
        envelope: Envelope,
        param: str,
    ) -> dict[str, Any] | None:
        lengths = output.stream.decoded.lengths
        content = choice.logprobs.content if choice.logprobs is not None else None
        body, envelope.pending = completion_logprobs(
            content,
            self._deployment.strings,
            lengths,
            offset=envelope.offset,
            pending=envelope.pending,
            top=view.logprobs,
            param=param,
        )
        envelope.offset += sum(lengths)
        return body


def _id(response: GenerateResponse) -> str:
    return response.request_id or f"cmpl-{uuid.uuid4().hex}"
