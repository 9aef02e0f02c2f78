"""Counts what answers hold, for ``/metrics``. Looks at bodies that are made already, so it can make none wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from derender_server.metrics import Metrics

__all__ = ["Api", "Meter"]

Api = Literal["chat", "completions", "responses", "messages"]

CALL_TYPES = ("function_call", "tool_use")
"""``type`` of a call, in the items of Responses and in the blocks of Messages."""

MOST = 2**31
"""Tokens that one answer may count. Engines and clients state the numbers, and one that lies must not ruin the sums."""


class Meter:
    """Counts tokens, chunks and calls.

    Args:
        metrics: where.
        tool_parser: name of the tool parser, if any.
        reasoning_parser: name of the reasoning parser, if any.
    """

    def __init__(self, metrics: Metrics, tool_parser: str | None, reasoning_parser: str | None) -> None:
        apis = get_args(Api)
        self._chunks = {api: metrics.chunks.labels(api) for api in apis}
        self._rendered = {api: metrics.rendered.labels(api) for api in apis}
        self._prompt = {api: metrics.prompt.labels(api) for api in apis}
        self._output = {api: metrics.output.labels(api) for api in apis}
        self._calls = metrics.tool_calls.labels(tool_parser) if tool_parser else None
        self._reasoning = metrics.reasoning.labels(reasoning_parser) if reasoning_parser else None

    def rendered(self, api: Api, token_ids: Iterable[list[int]]) -> None:
        """Count rendered prompts."""
        self._rendered[api].inc(sum(map(len, token_ids)))

    def whole(self, api: Api, body: Mapping[str, Any]) -> None:
        """Count a one-shot answer."""
        usage = body.get("usage") or {}
        self._prompt[api].inc(_count(usage, "prompt_tokens", "input_tokens"))
        self._output[api].inc(_count(usage, "completion_tokens", "output_tokens"))
        details = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
        self._add(_calls_of(body), _count(details, "reasoning_tokens"))

    def chunk(self, api: Api, request: Any, answer: Mapping[str, Any]) -> None:
        """Count a chunk.

        Args:
            api: which one.
            request: a streaming request, as it was decoded.
            answer: with its chunk or events, and the state.
        """
        self._chunks[api].inc()
        before = request.stream_state
        prompt = request.prompt_token_ids or request.generate_chunk.prompt_token_ids
        if before is None and prompt:
            self._prompt[api].inc(len(prompt))
        tokens = 0
        for choice in request.generate_chunk.choices:
            tokens += len(choice.token_ids or ())
        if tokens:
            self._output[api].inc(tokens)
        reasoning = answer["stream_state"].get("q", 0)
        if before is not None and reasoning:
            # What came before a stream was taken over from another server was counted there.
            reasoning = max(0, reasoning - before.get("q", 0)) if "v" in before else 0
        chunk = answer.get("chunk")
        self._add(_new_calls(answer["events"] if chunk is None else chunk["choices"]), reasoning)

    def began(self, api: Api, prompt: int) -> None:
        """Count the prompt of an answer that is streamed from here on."""
        self._prompt[api].inc(prompt)

    def streamed(self, api: Api, tokens: int, parts: Sequence[Mapping[str, Any]]) -> None:
        """Count a chunk whose stream keeps its state.

        Args:
            api: which one.
            tokens: of the engine's chunk.
            parts: its OpenAI chunk, or its events.
        """
        self._chunks[api].inc()
        if tokens:
            self._output[api].inc(tokens)
        if parts:
            self._add(_new_calls(parts[0].get("choices", parts)), 0)

    def reasoned(self, tokens: int) -> None:
        """Count the reasoning of an answer that was streamed."""
        self._add(0, tokens)

    def parsed(self, answer: Mapping[str, Any]) -> None:
        """Count the calls of a text."""
        self._add(len(answer["message"].get("tool_calls", ())), 0)

    def _add(self, calls: int, reasoning: int) -> None:
        if calls and self._calls is not None:
            self._calls.inc(calls)
        if reasoning and self._reasoning is not None:
            self._reasoning.inc(reasoning)


def _count(usage: Mapping[str, Any], name: str, other: str = "") -> int:
    """A count that two APIs name differently; 0 when there is none."""
    return min(usage.get(name) or usage.get(other) or 0, MOST)


def _calls_of(body: Mapping[str, Any]) -> int:
    """Calls in a chat completion, a Response, or a Message."""
    if "choices" in body:
        return sum(len(choice.get("message", {}).get("tool_calls", ())) for choice in body["choices"])
    return sum(item["type"] in CALL_TYPES for item in body.get("output") or body.get("content") or ())


def _new_calls(parts: Iterable[Mapping[str, Any]]) -> int:
    """Calls that begin in the choices of a chunk, or in events."""
    count = 0
    for part in parts:
        delta = part.get("delta")
        if isinstance(delta, dict):
            for entry in delta.get("tool_calls", ()):
                count += "id" in entry
        elif part.get("type") in ("response.output_item.added", "content_block_start"):
            count += (part.get("item") or part["content_block"])["type"] in CALL_TYPES
    return count
