"""Chat derendering, one-shot and streaming."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.message import fold_message
from derender_server.chat import CallIds, chat_finish_reason, delta_body, message_body
from derender_server.chat_options import ChatOptions
from derender_server.chunks import ChunkInput, advance, begin
from derender_server.deployment import Deployment
from derender_server.logprobs import chat_logprobs
from derender_server.prepared import Prepared, PreparedRequests
from derender_server.sequence import Output, check_chunk, check_response, run_whole
from derender_server.stream_state import Envelope, StateCodec
from derender_server.usage import check_prompt_tokens, stream_usage, usage_body
from derender_server.wire.derender import (
    ChatRequestView,
    DerenderChatRequest,
    DerenderChatStreamRequest,
    GenerateChoice,
    GenerateStreamChoice,
)

__all__ = ["ChatDerenderer"]


class ChatDerenderer:
    """Turns engine outputs into chat completions and their chunks.

    Args:
        deployment: the setup.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._requests = PreparedRequests(deployment, ChatRequestView, "chat_request", lambda view: view)
        self.codec: StateCodec = deployment.codec(parsers=True)

    def completion(self, request: DerenderChatRequest, *, logprobs_as_json: bool = False) -> dict[str, Any]:
        """A chat completion, from an engine's whole response.

        Args:
            request: the call.
            logprobs_as_json: the entries of ``logprobs`` are ``msgspec.Raw``, for who encodes the answer anyway.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        deployment, response = self._deployment, request.generate_response
        name = deployment.model.resolve_name(request.model)
        limits = deployment.limits
        limits.check_count(len(response.choices), "generate_response.choices")
        limits.check_ids(request.prompt_token_ids, "prompt_token_ids")
        prompt_tokens = check_prompt_tokens(request.prompt_tokens)
        check_response(response, limits, "generate_response")
        call, options = self._requests.of(request.chat_request, whole=True)
        prompt = request.prompt_token_ids if request.prompt_token_ids is not None else response.prompt_token_ids
        request_id = response.request_id or _fresh_id()
        outputs = [run_whole(call, choice, prompt) for choice in response.choices]
        choices = [
            self._choice(at, choice, output, options, self._ids(request_id, choice.index), logprobs_as_json)
            for at, (choice, output) in enumerate(zip(response.choices, outputs, strict=True))
        ]
        return {
            "id": request_id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": name,
            "choices": choices,
            "usage": self._usage(prompt_tokens, outputs),
            "prompt_logprobs": response.prompt_logprobs,
            "prompt_token_ids": prompt if options.return_token_ids else None,
            "kv_transfer_params": response.kv_transfer_params,
            "metrics": response.metrics,
        }

    def chunk(self, request: DerenderChatStreamRequest) -> dict[str, Any]:
        """A chat completion chunk and the next ``stream_state``, from an engine's chunk and the state before.

        Raises:
            InputError: the request is wrong; names the field.
            StateError: the state was not made here, or not for this configuration.
            ParserError: a parser failed; names it.
        """
        chunk, envelope = self.advance(request, request.stream_state)
        return {"chunk": chunk, "stream_state": self.codec.keep(envelope)}

    def prepare(self, view: ChatRequestView | None) -> Prepared:
        """What a request means for its stream, for callers that keep it.

        Raises:
            InputError: the request is missing and needed, or a field is wrong; names it.
        """
        return self._requests.of(view, whole=False)

    def advance(
        self,
        request: DerenderChatStreamRequest,
        state: Mapping[str, Any] | Envelope | None,
        prepared: Prepared | None = None,
    ) -> tuple[dict[str, Any], Envelope]:
        """As ``chunk``, for callers that keep the envelope instead of its state, and what the request means."""
        deployment, chunk = self._deployment, request.generate_chunk
        name = deployment.model.resolve_name(request.model)
        check_prompt_tokens(request.prompt_tokens)
        choice = check_chunk(chunk, deployment.limits)
        call, options = prepared or self.prepare(request.chat_request)
        given = ChunkInput(chunk, state, request.prompt_token_ids, deployment.has_parser, "chatcmpl-")
        envelope, output = advance(call, given, begin(given, self.codec), choice)
        body: dict[str, Any] = {
            "id": envelope.request_id,
            "object": "chat.completion.chunk",
            "created": envelope.created,
            "model": name,
            "choices": [],
        }
        if choice is not None and output is not None:
            if options.return_token_ids and not envelope.role_sent:
                body["prompt_token_ids"] = given.any_prompt
            body["choices"].append(self._chunk_choice(choice, output, options, envelope))
        if chunk.usage is not None:
            reasoning = deployment.reasoning_parser is not None
            body["usage"] = stream_usage(chunk.usage, envelope, request.prompt_tokens, reasoning=reasoning)
        return body, envelope

    def _ids(self, request_id: str, choice: int, given: Sequence[str] = ()) -> CallIds:
        return CallIds(request_id, choice, given, length=self._deployment.call_id_length)

    def _choice(
        self, at: int, choice: GenerateChoice, output: Output, options: ChatOptions, ids: CallIds, as_json: bool
    ) -> dict[str, Any]:
        message = message_body(fold_message(output.events), options, ids)
        content = choice.logprobs.content if choice.logprobs is not None and options.logprobs else None
        where = f"generate_response.choices.{at}.logprobs"
        logprobs, _ = chat_logprobs(
            content, self._deployment.strings, top=options.top_logprobs, param=where, as_json=as_json
        )
        return {
            "index": choice.index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": chat_finish_reason(output.finish_reason, calls="tool_calls" in message, options=options),
            "stop_reason": output.stop_reason,
            "token_ids": output.token_ids if options.return_token_ids else None,
        }

    def _chunk_choice(
        self, choice: GenerateStreamChoice, output: Output, options: ChatOptions, envelope: Envelope
    ) -> dict[str, Any]:
        ids = self._ids(envelope.request_id, choice.index, envelope.call_ids)
        delta = delta_body(output.events, options, ids)
        if not envelope.role_sent:
            delta = {"role": "assistant", **delta}
            envelope.role_sent = True
        content = choice.logprobs.content if choice.logprobs is not None and options.logprobs else None
        logprobs, envelope.pending = chat_logprobs(
            content,
            self._deployment.strings,
            pending=envelope.pending,
            top=options.top_logprobs,
            param="generate_chunk.choices.0.logprobs",
        )
        calls = envelope.calls > 0 and options.max_calls != 0
        body: dict[str, Any] = {
            "index": choice.index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": chat_finish_reason(output.finish_reason, calls=calls, options=options),
        }
        if output.finish_reason is not None:
            body["stop_reason"] = output.stop_reason
        if options.return_token_ids:
            body["token_ids"] = output.token_ids
        return body

    def _usage(self, prompt_tokens: int, outputs: Sequence[Output]) -> dict[str, Any]:
        reasoning = sum(output.stream.reasoning_tokens for output in outputs)
        completion = sum(len(output.token_ids) for output in outputs)
        known = self._deployment.reasoning_parser is not None
        return usage_body(prompt_tokens, completion, reasoning if known else None)


def _fresh_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"
