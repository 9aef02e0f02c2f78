"""Stop strings: engines that take token ids see no text, so the gateway ends what they say."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.anyio

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stop": ["HALT"]}
TEXT = "<think>\n\n</think>\n\nbefore HALT and then some words behind"


async def test_the_engine_never_sees_them(serve):
    async with serve() as served:
        for stream in (True, False):
            served.engines.play(served.chunks(TEXT))
            await served.post("/v1/chat/completions", CHAT | {"stream": stream})
        assert [request.sampling_params.stop for request in served.engines.requests] == [[], []]
        assert all(request.stream for request in served.engines.requests)


async def test_a_streamed_answer_ends_at_one_and_so_does_the_engine(serve):
    async with serve() as served:
        chunks = served.chunks(TEXT)
        served.engines.play([*chunks[:-2], asyncio.Event()])  # it would go on for ever
        options = {"stream": True, "stream_options": {"include_usage": True}}
        call = await served.post("/v1/chat/completions", CHAT | options)
        stream = served.engines.streams[0]
        assert stream.closed.is_set()
    *chunks_sent, usage, done = call.data
    choices = [chunk["choices"][0] for chunk in chunks_sent]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "before "
    assert (choices[-1]["finish_reason"], choices[-1]["stop_reason"]) == ("stop", "HALT")
    assert usage["usage"]["completion_tokens"] == stream.read
    assert done == "[DONE]"


async def test_a_whole_answer_ends_at_one_too(serve):
    async with serve() as served:
        served.engines.play([*served.chunks(TEXT)[:-2], asyncio.Event()])
        answer = (await served.post("/v1/chat/completions", CHAT)).json
        stream = served.engines.streams[0]
        assert stream.closed.is_set()
    choice = answer["choices"][0]
    assert choice["message"]["content"] == "before "
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "HALT")
    assert answer["usage"]["completion_tokens"] == stream.read


@pytest.mark.parametrize("stream", [False, True])
async def test_each_choice_has_its_own_end(serve, stream):
    async with serve() as served:
        one = served.chunks("a HALT and more of it")
        two = served.chunks("a longer text until HALT and on", index=1)
        mixed = [chunk for pair in zip(one, two, strict=False) for chunk in pair] + two[len(one) :]
        served.engines.play([*mixed[:-2], asyncio.Event()])
        call = await served.post("/v1/completions", {"prompt": "x", "stop": "HALT", "n": 2, "stream": stream})
        assert served.engines.streams[0].closed.is_set()
    found = {0: "", 1: ""}
    for body in call.data[:-1] if stream else [call.json]:
        for choice in body["choices"]:
            found[choice["index"]] += choice["text"]
    assert found == {0: "a ", 1: "a longer text until "}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_without_one_is_whole(serve, stream):
    async with serve() as served:
        served.engines.play(served.chunks("no end", finish_reason="length"))
        call = await served.post("/v1/completions", {"prompt": "x", "stop": ["HALT"], "stream": stream})
    bodies = call.data[:-1] if stream else [call.json]
    assert "".join(body["choices"][0]["text"] for body in bodies) == "no end"
    assert bodies[-1]["choices"][0]["finish_reason"] == "length"


async def test_prompts_end_one_by_one(serve):
    async with serve() as served:
        served.engines.play([*served.chunks("a HALT and some words")[:-1], asyncio.Event()], served.chunks("no end"))
        call = await served.post("/v1/completions", {"prompt": ["x", "y"], "stop": ["HALT"]})
        assert all(stream.closed.is_set() for stream in served.engines.streams)
    assert [choice["text"] for choice in call.json["choices"]] == ["a ", "no end"]


async def test_logprobs_end_with_it(serve):
    async with serve() as served:
        chunks = served.chunks("ab HALT cd")
        for chunk in chunks:
            for choice in chunk["choices"]:
                choice["logprobs"] = {"content": [{"token_id": choice["token_ids"][0], "logprob": -1.0}]}
        served.engines.play(chunks)
        call = await served.post("/v1/completions", {"prompt": "x", "stop": ["HALT"], "logprobs": 0})
        read = served.engines.streams[0].read
    assert read < len(chunks)
    assert len(call.json["choices"][0]["logprobs"]["tokens"]) == read
