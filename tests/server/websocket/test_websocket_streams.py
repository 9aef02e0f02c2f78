"""The WebSocket of chat streams says what the stateless calls say, with the state kept by the connection."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź", "days": 3}}\n</tool_call>'
OUTPUTS = {
    "text": "Hello there!",
    "characters of several tokens": "Łódź is grey 🦜🦜.",
    "thoughts": "<think>\nLet me see.\n</think>\n\nIt rains.",
    "a call": f"<think>\nI call.\n</think>\n\n{CALL}",
    "two calls and text": f"Well: {CALL}\n{CALL}",
    "a cut call": f"Well: {CALL[:40]}",
    "a broken call": 'Well: <tool_call>\n{"name": }\n</tool_call> then.',
    "thoughts without an end": "<think>\nLet me",
}


def timeless(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**chunk, "created": 0} for chunk in chunks]


# -- the same as the stateless calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_the_same_as_the_stateless_calls(running: Any, output: str, size: int) -> None:
    reason = "length" if "cut" in output or output == OUTPUTS["a cut call"] else "stop"
    chunks = running.chunks_of(running.ids(output), size, reason=reason)
    context = running.context()
    async with running.connect() as socket:
        answers = await running.talk(socket, context, chunks)
    assert timeless(answers) == timeless(running.stateless(chunks, context))
    assert len({answer["created"] for answer in answers}) == 1
    assert answers[-1]["choices"][0]["finish_reason"] is not None


@pytest.mark.parametrize(
    "request_fields",
    [
        {"stop": ["grey"]},
        {"return_token_ids": True},
        {"tool_choice": "none"},
        {"include_reasoning": False},
        {"parallel_tool_calls": False},
    ],
    ids=str,
)
async def test_options_of_the_request(running: Any, request_fields: dict[str, Any]) -> None:
    output = OUTPUTS["thoughts"] + OUTPUTS["characters of several tokens"] + CALL
    chunks, context = running.chunks_of(running.ids(output)), running.context(request_fields)
    async with running.connect() as socket:
        answers = await running.talk(socket, context, chunks)
    assert timeless(answers) == timeless(running.stateless(chunks, context))


async def test_logprobs(running: Any) -> None:
    chunks = running.chunks_of(running.ids(OUTPUTS["characters of several tokens"]))
    for chunk in chunks:
        (choice,) = chunk["choices"]
        choice["logprobs"] = {"content": [{"token_id": item, "logprob": -0.5} for item in choice["token_ids"]]}
    context = running.context({"logprobs": True})
    async with running.connect() as socket:
        answers = await running.talk(socket, context, chunks)
    assert timeless(answers) == timeless(running.stateless(chunks, context))
    assert answers[0]["choices"][0]["logprobs"]["content"]


async def test_choices_interleave_and_usage_counts_all(running: Any) -> None:
    streams = [running.chunks_of(running.ids(OUTPUTS[name]), 2, at) for at, name in enumerate(("thoughts", "a call"))]
    chunks = [chunk for pair in itertools.zip_longest(*streams) for chunk in pair if chunk is not None]
    context = running.context({"n": 2})
    count = sum(len(running.ids(OUTPUTS[name])) for name in ("thoughts", "a call"))
    usage = {"request_id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": count}}
    async with running.connect() as socket:
        *answers, last = await running.talk(socket, context, [*chunks, usage])
    assert timeless(answers) == timeless(running.stateless(chunks, context))
    alone = [running.stateless([*stream, usage], running.context())[-1]["usage"] for stream in one_each(streams)]
    thoughts = [usage["completion_tokens_details"]["reasoning_tokens"] for usage in alone]
    assert all(thoughts)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 7 + count
    assert last["usage"]["completion_tokens_details"]["reasoning_tokens"] == sum(thoughts)


def one_each(streams: list[list[Any]]) -> list[list[Any]]:
    """The same streams, each as if it were the only choice."""
    return [[{**one, "choices": [{**one["choices"][0], "index": 0}]} for one in stream] for stream in streams]


async def test_binary_frames_are_json_too(running: Any) -> None:
    chunks, context = running.chunks_of(running.ids("Hello")), running.context()
    async with running.connect() as socket:
        await socket.send(json.dumps(context).encode())
        await socket.send(json.dumps(chunks[0]).encode())
        answer = await socket.recv()
    assert isinstance(answer, str)
    assert timeless([json.loads(answer)]) == timeless(running.stateless(chunks[:1], context))


async def test_chunks_need_not_wait_for_answers(running: Any) -> None:
    chunks, context = running.chunks_of(running.ids("Hello there, dear reader!")), running.context()
    async with running.connect() as socket:
        for message in (context, *chunks):
            await socket.send(json.dumps(message))
        answers = [json.loads(await socket.recv()) for _ in chunks]
    assert timeless(answers) == timeless(running.stateless(chunks, context))


@pytest.mark.parametrize("secret", [None, "a secret"])
async def test_a_stream_that_began_elsewhere_goes_on(serve: Callable[..., Any], secret: str | None) -> None:
    async with serve(state_secret=secret) as running:
        chunks, context = running.chunks_of(running.ids(OUTPUTS["a call"])), running.context()
        whole = running.stateless(chunks, context)
        state = None
        for chunk in chunks[:9]:
            body = {"stream": True, "generate_chunk": chunk, "stream_state": state, **context}
            state = json.loads(running.services.derender_chat(json.dumps(body).encode()))["stream_state"]
        async with running.connect() as socket:
            answers = await running.talk(socket, {**context, "stream_state": state}, chunks[9:])
    assert timeless(answers) == timeless(whole[9:])


async def test_a_stream_of_another_server_goes_on_by_replay(running: Any) -> None:
    ids = running.ids(OUTPUTS["a call"])
    chunks, context = running.chunks_of(ids), running.context()
    state = {"output_token_ids": ids[:5], "output_chunk_lens": [1] * 5, "role_sent": True, "tools_streamed": False}
    async with running.connect() as socket:
        answers = await running.talk(socket, {**context, "stream_state": state}, chunks[5:])
    assert timeless(answers) == timeless(running.stateless(chunks, context)[5:])
