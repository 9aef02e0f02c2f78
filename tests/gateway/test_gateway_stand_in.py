"""The whole way: a client's HTTP, the gateway, HTTP again, and an engine in the demo's vocabulary."""

from __future__ import annotations

import asyncio

import pytest

from derender_server.demo.stand_in import serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.model import ServedModel

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi"}]
CHAT = {"messages": HI}
REQUESTS = {
    "chat/completions": CHAT,
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
    "messages": {"messages": HI, "max_tokens": 100},
}
TEXT = "<think>\nHm.\n</think>\n\nHello, and some more words. HALT"
FOREVER = Switches(text=TEXT, tokens_per_chunk=8, fault="stall", fault_after=2)


@pytest.fixture(scope="module")
def model():
    return ServedModel.load("demo")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", REQUESTS)
async def test_answers(serve, model, api, stream):
    async with (
        serve_stand_in(model, Switches(text=TEXT, tokens_per_chunk=100)) as engine,
        serve(engine_url=(engine.url,)) as served,
    ):
        call = await served.post(f"/v1/{api}", REQUESTS[api] | {"stream": stream, "max_tokens": 100})
        await engine.until(lambda: [one.state for one in engine.requests] == ["finished"])
    assert call.status == 200
    assert b"HALT" in call.received


@pytest.mark.parametrize("api", REQUESTS)
async def test_a_client_that_leaves_a_stream_ends_the_engines_request(serve, model, api):
    async with serve_stand_in(model, FOREVER) as engine, serve(engine_url=(engine.url,)) as served:
        call = served.call(f"/v1/{api}", REQUESTS[api] | {"stream": True})
        await call.until("Hm")
        call.leave()
        await call.end()
        await engine.until(lambda: [one.state for one in engine.requests] in (["aborted"], ["disconnected"]))


async def test_a_client_that_leaves_a_whole_answer_ends_the_engines_request(serve, model):
    async with serve_stand_in(model, Switches(fault="hang")) as engine, serve(engine_url=(engine.url,)) as served:
        call = served.call("/v1/chat/completions", CHAT)
        await engine.until(lambda: [one.state for one in engine.requests] == ["running"])
        call.leave()
        await call.end()
        await engine.until(lambda: [one.state for one in engine.requests] in (["aborted"], ["disconnected"]))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_the_engines_request(serve, model, stream):
    switches = Switches(text=TEXT + " and on" * 200, token_delay=0.001)
    async with serve_stand_in(model, switches) as engine, serve(engine_url=(engine.url,)) as served:
        call = await served.post("/v1/chat/completions", CHAT | {"stop": ["HALT"], "stream": stream})
        await engine.until(lambda: [one.state for one in engine.requests] in (["aborted"], ["disconnected"]))
    assert call.status == 200
    assert b'"stop_reason":"HALT"' in call.received


@pytest.mark.parametrize("fault", ["drop", "error", "garbage", "unfinished"])
@pytest.mark.parametrize("api", REQUESTS)
async def test_faults_in_a_stream_are_told(serve, model, api, fault):
    switches = Switches(text=TEXT, fault=fault, fault_after=3)
    async with serve_stand_in(model, switches) as engine, serve(engine_url=(engine.url,)) as served:
        call = await served.post(f"/v1/{api}", REQUESTS[api] | {"stream": True})
        assert engine.url.encode() not in call.received
    assert call.status == 200
    assert call.is_complete
    assert any("error" in (name, *(data if isinstance(data, dict) else ())) for name, data in call.events)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_not_there(serve, stream):
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    async with serve(engine_url=(f"http://127.0.0.1:{port}",)) as served:
        call = await served.post("/v1/chat/completions", CHAT | {"stream": stream})
    assert call.status in (502, 503)
    assert str(port).encode() not in call.received
