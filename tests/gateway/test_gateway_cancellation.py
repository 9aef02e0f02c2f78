"""A client that goes away ends the engine's request, and nothing stays behind."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.anyio

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


async def settled(served, tasks_before):
    """Once only the tasks of before are left."""
    while asyncio.all_tasks() - tasks_before:
        await asyncio.sleep(0)
    assert served.app.gate.active == 0
    assert served.app.state.work.active == 0


@pytest.mark.parametrize("when", ["before the first chunk", "between chunks"])
async def test_of_a_stream(serve, when):
    async with serve() as served:
        before = asyncio.all_tasks()
        said = [] if when == "before the first chunk" else served.chunks("Hello", finish_reason=None)
        served.engines.play([*said, asyncio.Event()])
        call = served.call("/v1/chat/completions", CHAT | {"stream": True})
        await (call.begun() if not said else call.until('"role"'))
        call.leave()
        await call.end()
        assert served.engines.streams[0].closed.is_set()
        await settled(served, before)
    assert not call.is_complete


async def test_of_a_whole_answer(serve):
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play(asyncio.Event())
        call = served.call("/v1/chat/completions", CHAT)
        await served.engines.asked.wait()
        call.leave()
        await call.end()
        assert served.engines.cancelled.is_set()
        await settled(served, before)
        text, _ = served.app.state.services.metrics.text("")
    assert call.status == 0
    assert b'derender_requests_total{route="/v1/chat/completions",status="499"} 1.0' in text


async def test_of_a_whole_answer_with_stop_strings(serve):
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play([*served.chunks("Hello", finish_reason=None), asyncio.Event()])
        call = served.call("/v1/chat/completions", CHAT | {"stop": ["HALT"]})
        await served.engines.asked.wait()
        call.leave()
        await call.end()
        assert served.engines.streams[0].closed.is_set()
        await settled(served, before)


async def test_of_several_prompts(serve):
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play(*[[*served.chunks(text, finish_reason=None), asyncio.Event()] for text in "abc"])
        call = served.call("/v1/completions", {"prompt": ["x", "y", "z"], "stream": True})
        await call.until('"index":2')
        call.leave()
        await call.end()
        assert [stream.closed.is_set() for stream in served.engines.streams] == [True] * 3
        await settled(served, before)


async def test_of_a_client_that_does_not_read(serve):
    """It is noticed while the server waits for it."""
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play(served.chunks("Hello there, and some more"))
        call = served.call("/v1/chat/completions", CHAT | {"stream": True})
        call.stalls_after = 2
        await call.until('"role"')
        call.leave()
        await call.end()
        assert served.engines.streams[0].closed.is_set()
        await settled(served, before)


async def test_when_the_server_says_so_while_it_sends(serve):
    """Servers may raise OSError for a connection that is gone."""
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play([*served.chunks("Hello"), asyncio.Event()])
        call = served.call("/v1/chat/completions", CHAT | {"stream": True})
        call.breaks_after = 2
        await call.end()
        assert served.engines.streams[0].closed.is_set()
        await settled(served, before)


async def test_by_the_end_of_the_process(serve):
    """Whoever cancels the request, it ends at the engine."""
    async with serve() as served:
        served.engines.play([*served.chunks("Hello", finish_reason=None), asyncio.Event()])
        call = served.call("/v1/chat/completions", CHAT | {"stream": True})
        await call.until('"role"')
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.end()
        assert served.engines.streams[0].closed.is_set()


async def test_an_answer_that_is_complete_leaves_nothing(serve):
    async with serve() as served:
        before = asyncio.all_tasks()
        served.engines.play(served.chunks("Hello"), served.response("Hello"))
        await served.post("/v1/chat/completions", CHAT | {"stream": True})
        await served.post("/v1/chat/completions", CHAT)
        assert served.engines.streams[0].closed.is_set()
        assert served.engines.streams[0].is_read
        await settled(served, before)
