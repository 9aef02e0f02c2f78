"""The demo's engine: token ids in, token ids out, over the protocol of WIRE.md section 3.

It stands where a token-in/token-out engine (``vllm serve --tokens-only``) stands and plays a script instead of running
a model. It exists to try the wire: every message that render makes is understood, and every message that derender reads
is produced, one-shot and as server-sent events.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from litestar import Request, post
from litestar.concurrency import sync_to_thread
from litestar.handlers import HTTPRouteHandler
from litestar.response import Response, Stream

from derender_core import InputError, TokenIdError
from derender_server.bodies import USUAL_LIMITS, BodyLimits, read_json
from derender_server.demo.conversation import read_conversation
from derender_server.demo.playback import JsonObject, Odds, Output, StopRules, play, response_choice, stream_choices
from derender_server.demo.request import EngineRequest
from derender_server.demo.script import Cue, write_answer
from derender_server.demo.switches import UNTOLD, Switches, switches_for
from derender_server.model import ServedModel
from derender_server.wire.decode import decode_body
from derender_server.wire.derender import GenerateResponse, GenerateStreamResponse

__all__ = ["GENERATE_PATH", "DemoEngine", "demo_engine_handlers"]

GENERATE_PATH = "/inference/v1/generate"
MAX_CHOICES = 128
MAX_LOGPROBS = 20
MAX_SIZE = 1_000_000  # tokens and alternatives in one answer
BLOCK = 16  # tokens of the prompt in a block of the made-up cache
TRANSFER = {"remote_engine_id": "demo", "remote_host": "127.0.0.1", "remote_port": 20097}


class DemoEngine:
    """The engine without the web: requests in, outputs and messages out.

    Args:
        model: whose tokenizer, end tokens and length it has.
        switches: what it was told; a request's own go over them. Delays and faults are for whoever sends the messages.
    """

    def __init__(self, model: ServedModel, switches: Switches = UNTOLD) -> None:
        self._model = model
        self.switches = switches

    def switches_for(self, request: EngineRequest) -> Switches:
        """The switches of a request.

        Raises:
            InputError: one is wrong; names it.
        """
        return switches_for(request.sampling_params.extra_args, self.switches)

    def generate(self, request: EngineRequest) -> list[Output]:
        """All choices of a request, complete.

        Raises:
            InputError: the request asks for what the engine cannot do; names the field.
        """
        self._model.resolve_name(request.model)
        rules = self._rules(request)
        sampling = request.sampling_params
        count = 1 if sampling.n is None else sampling.n
        _check_range("sampling_params.n", count, 1, MAX_CHOICES)
        if sampling.logprobs is not None:
            _check_range("sampling_params.logprobs", sampling.logprobs, 0, MAX_LOGPROBS)
        cue, switches = self._cue(request), self.switches_for(request)
        outputs = [self._output(at, cue, rules, switches) for at in range(count)]
        size = sum(len(output.token_ids) for output in outputs) * (1 + (sampling.logprobs or 0))
        if size > MAX_SIZE:
            raise InputError(
                f"the answer would hold {size} entries, more than the {MAX_SIZE} of the demo engine; lower max_tokens, "
                "n or logprobs",
                "sampling_params.max_tokens",
            )
        return outputs

    def response(self, request: EngineRequest, outputs: Sequence[Output]) -> JsonObject:
        """The ``GenerateResponse``."""
        return {
            **self._envelope(request),
            "choices": [response_choice(output, self._odds(request)) for output in outputs],
            "usage": _usage(request, outputs),
            "prompt_token_ids": request.token_ids if request.return_token_ids else None,
            "kv_transfer_params": _transfer(request),
        }

    def chunks(self, request: EngineRequest, outputs: Sequence[Output]) -> Iterator[JsonObject]:
        """The ``GenerateStreamResponse`` chunks, the usage chunk last when it is asked for."""
        envelope = self._envelope(request)
        first = {"prompt_token_ids": request.token_ids} if request.return_token_ids else {}
        for choice in stream_choices(outputs, self.switches_for(request).sizes(), self._odds(request)):
            yield {**envelope, "choices": [choice], **first}
            first = {}
        if request.stream_options and request.stream_options.include_usage:
            yield {**envelope, "choices": [], "usage": _usage(request, outputs)}

    def _output(self, index: int, cue: Cue, rules: StopRules, switches: Switches) -> Output:
        exact = switches.ids_of(index)
        if exact is None:
            told = switches.text_of(index)
            output = play(index, self._encode(write_answer(cue, index) if told is None else told), rules)
        elif len(exact) > rules.max_tokens:
            output = Output(index, exact[: rules.max_tokens], "length", None)
        else:
            output = Output(index, exact, "stop", None)
        if switches.finish_reason is None or output.finish_reason == "length":
            return output
        return replace(output, finish_reason=switches.finish_reason, stop_reason=switches.stop_reason)

    def _encode(self, text: str) -> list[int]:
        # A schema may hold half of a surrogate pair, which is no character and has no token.
        return self._model.tokenizer.encode(text.encode(errors="replace").decode())

    def _odds(self, request: EngineRequest) -> Odds | None:
        top = request.sampling_params.logprobs
        return None if top is None else Odds(top, self._model.vocab_size)

    def _envelope(self, request: EngineRequest) -> JsonObject:
        return {
            "request_id": request.request_id or f"generate-{uuid.uuid4().hex}",
            "model": self._model.resolve_name(request.model),
        }

    def _rules(self, request: EngineRequest) -> StopRules:
        length, limit = len(request.token_ids), self._model.max_model_len
        if not length:
            raise InputError("token_ids must hold at least one token id", "token_ids")
        wrong = next((item for item in request.token_ids if not 0 <= item < self._model.vocab_size), None)
        if wrong is not None:
            raise TokenIdError(f"token_ids holds {wrong}; ids go from 0 to {self._model.vocab_size - 1}", "token_ids")
        if length >= limit:
            raise InputError(
                f"the prompt has {length} tokens, which leaves no room for output: prompt and output together may "
                f"have {limit}; shorten the prompt",
                "token_ids",
            )
        sampling = request.sampling_params
        if sampling.max_tokens is not None:
            _check_range("sampling_params.max_tokens", sampling.max_tokens, 1)
        primary = self._model.eos_token_id
        others = sorted(self._model.eos_token_ids - {primary})
        return StopRules(
            max_tokens=min(sampling.max_tokens or limit, limit - length),
            min_tokens=sampling.min_tokens or 0,
            eos_token_ids=tuple(others if primary is None else [primary, *others]),
            stop_token_ids=frozenset(sampling.stop_token_ids or ()),
            ignore_eos=bool(sampling.ignore_eos),
        )

    def _cue(self, request: EngineRequest) -> Cue:
        talk = read_conversation(self._model.tokenizer.decode(request.token_ids, skip_special_tokens=False))
        context = request.parse_context
        tools: Sequence[Mapping[str, Any]] | None = context.tools if context else None
        return Cue(
            conversation=talk,
            tools=talk.tools if tools is None else tools,
            tool_choice=context.tool_choice if context else None,
            structured_outputs=request.sampling_params.structured_outputs,
        )


def demo_engine_handlers(
    model: ServedModel, switches: Switches = UNTOLD, limits: BodyLimits = USUAL_LIMITS
) -> list[HTTPRouteHandler]:
    """The routes of the demo engine, for ``Litestar(route_handlers=...)``.

    Args:
        model: the model that the engine pretends to run.
        switches: what the engine was told. Without delays and faults: ``stand_in`` has those.
        limits: of bodies.

    The handlers raise ``InputError`` for requests that cannot be served; the application answers it with 400.
    """
    engine = DemoEngine(model, switches)

    def answer(body: bytes) -> Response[Any]:
        request = decode_body(body, EngineRequest)
        outputs = engine.generate(request)
        if not request.stream:
            return Response(msgspec.json.encode(engine.response(request, outputs)), media_type="application/json")
        events = _events(engine.chunks(request, outputs))
        return Stream(events, media_type="text/event-stream", headers={"cache-control": "no-cache"})

    @post(
        GENERATE_PATH,
        status_code=200,
        opt={"body": (EngineRequest,), "answer": (GenerateResponse, GenerateStreamResponse)},
    )
    async def generate(request: Request[Any, Any, Any]) -> Response[Any]:
        """Play an engine by a script: a response for the prompt, or with `stream: true` its chunks as SSE."""
        return await sync_to_thread(answer, await read_json(request, limits))

    return [generate]


async def _events(chunks: Iterator[JsonObject]) -> AsyncIterator[bytes]:
    """Server-sent events. Asynchronous, so that an event loop with many streams can take turns."""
    for chunk in chunks:
        yield b"data: " + msgspec.json.encode(chunk) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _usage(request: EngineRequest, outputs: Sequence[Output]) -> JsonObject:
    prompt, completion = len(request.token_ids), sum(len(output.token_ids) for output in outputs)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _transfer(request: EngineRequest) -> JsonObject | None:
    """What a prefill engine answers for the decode engine, when it is asked to."""
    asked = request.kv_transfer_params
    if not asked or not asked.get("do_remote_decode"):
        return None
    blocks = list(range(-(-len(request.token_ids) // BLOCK)))
    return {"do_remote_prefill": True, "do_remote_decode": False, **TRANSFER, "remote_block_ids": blocks}


def _check_range(param: str, value: int, low: int, high: int | None = None) -> None:
    if value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{param} must be {allowed}, not {value}", param)
