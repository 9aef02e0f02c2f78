"""Streams of the gateway: how they begin, go on, wait, and end."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.anyio

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
MESSAGES = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50, "stream": True}


def texts(call, index=0):
    """What the chunks say, by choice."""
    chunks = [data for data in call.data if data != "[DONE]" and data["choices"]]
    choices = [chunk["choices"][0] for chunk in chunks]
    return "".join(
        choice["text"] if "text" in choice else choice["delta"].get("content", "")
        for choice in choices
        if choice["index"] == index
    )


async def test_the_head_says_what_comes_and_that_nobody_may_hold_it_back(serve):
    async with serve() as served:
        served.engines.play(served.chunks("Hello"))
        call = await served.post("/v1/chat/completions", CHAT, **{"x-request-id": "r1"})
    assert call.headers == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-request-id": "r1",
    }
    assert call.data[-1] == "[DONE]"
    assert {data["id"] for data in call.data[:-1]} == {"chatcmpl-r1"}


async def test_the_head_goes_out_before_the_first_token_and_each_chunk_at_once(serve):
    first, second = asyncio.Event(), asyncio.Event()
    async with serve() as served:
        chunks = served.chunks("<think>\n\n</think>\n\na b")
        served.engines.play([first, *chunks[:-1], second, chunks[-1]])
        call = served.call("/v1/chat/completions", CHAT)
        await call.begun()
        assert call.received == b""
        first.set()
        await call.until('"content":"a"')
        assert not call.is_complete
        second.set()
        await call.end()
    assert len(call.data) == len(chunks) + 1


@pytest.mark.parametrize(
    ("options", "wanted"), [({}, []), ({"stream_options": {"include_usage": True}}, [(10, 7)])], ids=["off", "on"]
)
async def test_usage_comes_last_when_it_is_asked_for(serve, options, wanted):
    async with serve() as served:
        tail = {
            "choices": [],
            "usage": {"prompt_tokens": 99, "completion_tokens": 99, "prompt_tokens_details": {"cached_tokens": 4}},
        }
        served.engines.play([*served.chunks([5, 6, 7, 8, 9, 10, 11]), tail])
        call = await served.post("/v1/chat/completions", CHAT | options)
        assert served.engines.requests[0].stream_options.include_usage is True
    usages = [data["usage"] for data in call.data[:-1] if "usage" in data]
    assert [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in usages] == wanted
    assert [usage["prompt_tokens_details"] for usage in usages] == [{"cached_tokens": 4} for _ in wanted]
    assert all(data["choices"] for data in call.data[: len(call.data) - 1 - len(wanted)])


async def test_usage_with_every_chunk(serve):
    options = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    async with serve() as served:
        served.engines.play(served.chunks([5, 6, 7]))
        call = await served.post("/v1/chat/completions", CHAT | options)
    assert [data["usage"]["completion_tokens"] for data in call.data[:-1]] == [1, 2, 3, 3]


async def test_choices_interleave(serve):
    async with serve() as served:
        one = served.chunks("<think>\n\n</think>\n\nfirst")
        two = served.chunks("<think>\n\n</think>\n\nsecond one", index=1)
        mixed = [chunk for pair in zip(one, two, strict=False) for chunk in pair] + two[len(one) :]
        served.engines.play(mixed)
        call = await served.post("/v1/chat/completions", CHAT | {"n": 2})
    assert (texts(call, 0), texts(call, 1)) == ("first", "second one")
    assert [data["choices"][0]["index"] for data in call.data[:-1]] == [chunk["choices"][0]["index"] for chunk in mixed]


async def test_a_chunk_with_several_choices_is_taken_apart(serve):
    async with serve() as served:
        choices = [
            {"index": at, "token_ids": served.ids(text), "finish_reason": "stop"} for at, text in enumerate(("a", "b"))
        ]
        served.engines.play([{"choices": choices}])
        call = await served.post("/v1/completions", {"prompt": "x", "n": 2, "stream": True})
    assert (texts(call, 0), texts(call, 1)) == ("a", "b")


async def test_several_prompts_are_asked_at_once_and_numbered_through(serve):
    gate = asyncio.Event()
    async with serve() as served:
        served.engines.play(
            [gate, *served.chunks("a0"), *served.chunks("a1", index=1)],
            [*served.chunks("b0"), *served.chunks("b1", index=1)],
        )
        request = {"prompt": ["p", "q"], "n": 2, "stream": True, "stream_options": {"include_usage": True}}
        call = served.call("/v1/completions", request)
        await call.until('"index":3')
        gate.set()
        await call.end()
        prompt = sum(len(request.token_ids) for request in served.engines.requests)
    assert [texts(call, at) for at in range(4)] == ["a0", "a1", "b0", "b1"]
    assert call.data[-2]["usage"] == {"prompt_tokens": prompt, "completion_tokens": 8, "total_tokens": prompt + 8}
    assert len({data["id"] for data in call.data[:-1]}) == 1


@pytest.mark.parametrize(
    ("path", "request_body", "sign"),
    [
        ("/v1/chat/completions", CHAT, ": keep-alive\n\n"),
        ("/v1/messages", MESSAGES, 'event: ping\ndata: {"type":"ping"}\n\n'),
    ],
)
async def test_silence_is_filled(serve, path, request_body, sign):
    gate = asyncio.Event()
    async with serve(keep_alive_interval=0.01) as served:
        served.engines.play([gate, *served.chunks("Hello")])
        call = served.call(path, request_body)
        await call.until(sign + sign)
        gate.set()
        await call.end()
    assert call.is_complete
    assert call.status == 200


async def test_a_slow_client_slows_the_engines_stream_and_no_other(serve):
    async with serve() as served:
        slow_chunks, quick_chunks = served.chunks("a" * 200), served.chunks("b" * 200)
        served.engines.play(slow_chunks, quick_chunks)
        slow = served.call("/v1/chat/completions", CHAT)
        slow.stalls_after = 3
        quick = await served.post("/v1/chat/completions", CHAT)
        assert quick.data[-1] == "[DONE]"
        assert served.engines.streams[0].read <= 4
        slow.goes_on.set()
        await slow.end()
    assert len(slow.data) == len(slow_chunks) + 1


async def test_an_engine_that_never_ends_its_stream_does_not_keep_the_client(serve, monkeypatch):
    monkeypatch.setattr("derender_server.gateway.gateway.REST_SECONDS", 0.01)
    async with serve() as served:
        served.engines.play([*served.chunks("Hello"), asyncio.Event()])
        call = await served.post("/v1/chat/completions", CHAT)
        assert served.engines.streams[0].closed.is_set()
    assert call.data[-1] == "[DONE]"


async def test_what_is_streamed_is_counted(serve):
    async with serve() as served:
        text = "<think>\nHm\n</think>\n\nA"
        served.engines.play(served.chunks(text))
        await served.post("/v1/chat/completions", CHAT)
        body, _ = served.app.state.services.metrics.text("")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if line.startswith("derender_"))
    tokens = float(len(served.ids(text)))
    assert float(lines['derender_stream_chunks_total{api="chat"}']) == tokens
    assert float(lines['derender_output_tokens_total{api="chat"}']) == tokens
    assert float(lines['derender_prompt_tokens_total{api="chat"}']) == 10
    assert float(lines['derender_rendered_tokens_total{api="chat"}']) == 10
    assert float(lines['derender_reasoning_tokens_total{parser="qwen3"}']) > 0
    assert float(lines['derender_requests_total{route="/v1/chat/completions",status="200"}']) == 1


async def test_running_streams_end_while_the_server_drains(serve):
    gate, drained = asyncio.Event(), asyncio.Event()
    async with serve() as served:
        served.engines.play([gate, *served.chunks("Hello")])
        call = served.call("/v1/chat/completions", CHAT)
        await call.begun()
        served.app.gate.drain(drained.set, 30)
        refused = await served.post("/v1/chat/completions", CHAT)
        assert (refused.status, drained.is_set()) == (503, False)
        gate.set()
        await call.end()
        await asyncio.wait_for(drained.wait(), 30)
    assert call.data[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
async def test_load_counts_an_answer_from_end_to_end(serve, stream):
    gate = asyncio.Event()
    async with serve() as served:
        served.engines.play([gate, *served.chunks("Hello")] if stream else gate)
        call = served.call("/v1/chat/completions", CHAT | {"stream": stream})
        await served.engines.asked.wait()
        assert served.app.state.work.active == 1
        call.leave()
        await call.end()
        assert served.app.state.work.active == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_parsers_are_watched(serve, stream):
    """With --plugin-timeout all work is done on threads, in order."""
    text = "<think>\nHm\n</think>\n\nAnswer"
    async with serve(plugin_timeout=30) as served:
        served.engines.play(served.chunks(text) if stream else served.response(text))
        call = await served.post("/v1/chat/completions", CHAT | {"stream": stream})
    assert call.status == 200
    assert (texts(call) if stream else call.json["choices"][0]["message"]["content"]) == "Answer"
