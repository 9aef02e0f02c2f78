"""Engines over HTTP: what is asked of them, what becomes of their faults, and how they are left."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from derender_server.demo.stand_in import serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.gateway.engine import refusal
from derender_server.gateway.engine_errors import EngineError
from derender_server.gateway.engine_options import EngineOptions
from derender_server.gateway.engines import PREFILL_PARAMS, Engines
from derender_server.model import ServedModel
from derender_server.wire.generate import GenerateRequest, SamplingParams
from derender_server.wire.sampling_fields import StreamOptions

pytestmark = pytest.mark.anyio

FOUR = Switches(token_ids=[5, 6, 7, 8])
SOON = 10
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def model():
    return ServedModel.load("demo")


@pytest.fixture
async def stack():
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def play(stack, model):
    """Engines that play by these switches, and what asks them: ``engines, (first, second) = await play(one, two)``."""

    async def start(*switches, prefill=(), **options):
        running = [await stack.enter_async_context(serve_stand_in(model, one)) for one in (*switches, *prefill)]
        urls = [engine.url for engine in running]
        more = {"health_interval": 3600, **options}
        engines = await stack.enter_async_context(
            opened(EngineOptions(tuple(urls[: len(switches)]), tuple(urls[len(switches) :]), **more))
        )
        await asyncio.sleep(0)
        return engines, running

    return start


@asynccontextmanager
async def opened(options):
    engines = Engines(options)
    await engines.start()
    try:
        yield engines
    finally:
        await engines.close()
        left = [task for task in asyncio.all_tasks() if "derender_server.gateway" in repr(task.get_coro())]
        assert left == []


def request(number=1, *, stream=False, **more):
    return GenerateRequest(
        request_id=f"r-{number}",
        token_ids=[1, 2, 3],
        sampling_params=SamplingParams(max_tokens=50),
        model="demo",
        stream=stream,
        stream_options=StreamOptions(include_usage=True) if stream else None,
        **more,
    )


async def ids_of(engines, number=1):
    stream = await engines.stream(request(number, stream=True))
    try:
        chunks = [json.loads(data) async for data in stream]
    finally:
        await stream.aclose()
    return [token_id for chunk in chunks for choice in chunk["choices"] for token_id in choice["token_ids"]]


async def failure(work):
    with pytest.raises(EngineError) as error:
        await work
    assert "127.0.0.1" not in error.value.message
    return error.value


def counts(engines):
    return [(one["requests"], one["running"], one["outstanding_tokens"], one["failures"]) for one in engines.report()]


def states(engine):
    return [one.state for one in engine.requests]


async def test_a_whole_answer_and_a_stream(play):
    engines, (engine,) = await play(FOUR)
    answer = json.loads(await engines.generate(request()))
    assert answer["choices"][0]["token_ids"][:4] == [5, 6, 7, 8]
    assert (await ids_of(engines))[:4] == [5, 6, 7, 8]
    assert states(engine) == ["finished", "finished"]
    assert counts(engines) == [(2, 0, 0, 0)]


# -- faults before anything began --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refuse", "status"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_has_not_begun_goes_to_another_engine(play, fault, stream):
    bad = FOUR.model_copy(update={"fault": fault, "fault_status": 503})
    engines, (first, second) = await play(bad, FOUR)
    if stream:
        assert (await ids_of(engines))[:4] == [5, 6, 7, 8]
    else:
        await engines.generate(request())
    assert (states(first), states(second)) == (["failed"], ["finished"])
    assert counts(engines) == [(1, 0, 0, 1), (1, 0, 0, 0)]


async def test_an_engine_that_is_not_there_is_out_at_once_and_others_answer(model, stack):
    engine = await stack.enter_async_context(serve_stand_in(model, FOUR))
    engines = await stack.enter_async_context(opened(EngineOptions((NOWHERE, engine.url), health_interval=3600)))
    for number in range(3):
        assert (await ids_of(engines, number))[:4] == [5, 6, 7, 8]
    nowhere, here = engines.report()
    assert (nowhere["healthy"], nowhere["running"], nowhere["outstanding_tokens"]) == (False, 0, 0)
    assert nowhere["requests"] <= 1
    assert here["requests"] == 3


async def test_when_no_engine_is_there_it_is_said(stack):
    engines = await stack.enter_async_context(opened(EngineOptions((NOWHERE,), health_interval=3600)))
    for work in (engines.generate(request()), engines.stream(request(stream=True))):
        error = await failure(work)
        assert (error.status, error.message) == (503, "No engine could be reached")


@pytest.mark.parametrize(("status", "told"), [(400, 400), (404, 404), (422, 422), (401, 502), (500, 502)])
async def test_other_refusals_are_not_sent_to_another_engine(play, status, told):
    bad = FOUR.model_copy(update={"fault": "status", "fault_status": status})
    engines, (_, second) = await play(bad, FOUR)
    assert (await failure(engines.generate(request()))).status == told
    assert (await failure(engines.stream(request(stream=True)))).status == told
    assert second.requests == []


@pytest.mark.parametrize(("status", "told"), [(429, 429), (503, 503)])
async def test_when_all_engines_are_overloaded_the_client_is_told_so(play, status, told):
    bad = FOUR.model_copy(update={"fault": "status", "fault_status": status})
    engines, running = await play(bad, bad)
    assert (await failure(engines.generate(request()))).status == told
    assert [len(engine.requests) for engine in running] == [1, 1]


@pytest.mark.parametrize("retries", [0, 1, 5])
async def test_so_many_more_engines_are_asked(play, retries):
    bad = FOUR.model_copy(update={"fault": "refuse"})
    engines, running = await play(bad, bad, bad, retries=retries)
    assert (await failure(engines.generate(request()))).status == 502
    assert sum(len(engine.requests) for engine in running) == min(1 + retries, 3)


def test_refusals_are_told_in_the_engines_words():
    for text in (
        b'{"error": {"message": "too long", "param": "token_ids", "code": 400}}',
        b'{"object": "error", "message": "too long", "param": "token_ids"}',
    ):
        error = refusal(400, text)
        assert (error.status, error.message, error.param) == (
            400,
            "The engine refused the request: too long",
            "token_ids",
        )
    assert refusal(422, b'{"detail": "no such field"}').message.endswith("no such field")
    for text in (b"", b"<html>", b"[1]", b'{"error": 5}', b'{"message": ["x"]}', b"[" * 100_000, b"\xff"):
        assert refusal(400, text).message == "The engine refused the request: it answered 400"


# -- faults later ------------------------------------------------------------------------------------------------------


async def test_a_stream_that_breaks_off_is_an_error_and_not_begun_again(play):
    bad = FOUR.model_copy(update={"fault": "drop", "fault_after": 2})
    engines, (_, second) = await play(bad, FOUR)
    stream = await engines.stream(request(stream=True))
    assert [json.loads(await anext(stream))["choices"][0]["token_ids"] for _ in range(2)] == [[5], [6]]
    error = await failure(anext(stream))
    await stream.aclose()
    assert error.status == 502
    assert second.requests == []
    assert counts(engines)[0] == (1, 0, 0, 1)


async def test_an_engine_that_says_nothing_more_is_given_up(play):
    bad = FOUR.model_copy(update={"fault": "stall", "fault_after": 1})
    engines, (engine,) = await play(bad, read_timeout=0.2)
    stream = await engines.stream(request(stream=True))
    await anext(stream)
    assert (await failure(anext(stream))).status == 504
    await stream.aclose()
    await engine.until(lambda: states(engine) in (["aborted"], ["disconnected"]), SOON)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_never_answers_is_given_up_and_no_other_is_asked(play, stream):
    engines, (_, second) = await play(FOUR.model_copy(update={"fault": "hang"}), FOUR, read_timeout=0.2)
    asked = engines.stream(request(stream=True)) if stream else engines.generate(request())
    assert (await failure(asked)).status == 504
    assert second.requests == []


async def test_what_is_no_stream_of_events_is_an_error(play):
    engines, _ = await play(FOUR.model_copy(update={"fault": "not_sse"}))
    error = await failure(engines.stream(request(stream=True)))
    assert (error.status, error.message) == (502, "The engine sent text/html, not a stream of events")
    assert counts(engines) == [(1, 0, 0, 1)]


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abort_status", [200, 404])
async def test_a_stream_that_is_closed_early_ends_the_engines_request(play, abort_status):
    slow = Switches(token_ids=[5] * 40, token_delay=3600, abort_status=abort_status)
    engines, (engine,) = await play(slow.model_copy(update={"token_delay": 0, "fault": "stall", "fault_after": 3}))
    for number in range(2):
        stream = await engines.stream(request(number, stream=True))
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        await engine.until(
            lambda count=number + 1: (
                len(engine.requests) == count and set(states(engine)) <= {"aborted", "disconnected"}
            ),
            SOON,
        )
    assert counts(engines) == [(2, 0, 0, 0)]


async def test_an_answer_that_nobody_waits_for_ends_the_engines_request(play):
    engines, (engine,) = await play(FOUR.model_copy(update={"fault": "hang"}))
    for asked in (engines.generate(request()), engines.stream(request(2, stream=True))):
        task = asyncio.ensure_future(asked)
        await engine.until(lambda: "running" in states(engine), SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.until(lambda: "running" not in states(engine), SOON)
    assert counts(engines) == [(2, 0, 0, 0)]


# -- load and health ---------------------------------------------------------------------------------------------------


async def test_requests_are_spread_by_outstanding_tokens(play):
    waits = FOUR.model_copy(update={"fault": "stall", "fault_after": 1})
    engines, running = await play(waits, waits)
    streams = [await engines.stream(request(number, stream=True)) for number in range(4)]
    assert [len(engine.requests) for engine in running] == [2, 2]
    assert [one["outstanding_tokens"] for one in engines.report()] == [2 * (3 + 50)] * 2
    await anext(streams[0])
    assert sum(one["outstanding_tokens"] for one in engines.report()) == 4 * (3 + 50) - 1
    for stream in streams:
        await stream.aclose()
    assert [one["outstanding_tokens"] for one in engines.report()] == [0, 0]


async def test_an_engine_is_taken_out_and_back_by_its_health(play):
    engines, (engine,) = await play(FOUR, health_interval=0.02)
    for status, healthy in ((503, False), (200, True), (404, True)):
        engine.switches = Switches(health_status=status)
        async with asyncio.timeout(SOON):
            while engines.report()[0]["healthy"] is not healthy:
                await asyncio.sleep(0.01)


# -- prefill -----------------------------------------------------------------------------------------------------------


async def test_prompts_run_on_a_prefill_engine_first(play):
    engines, (decode, prefill) = await play(FOUR, prefill=(FOUR,))
    await ids_of(engines)
    first, second = prefill.requests[0].request, decode.requests[0].request
    assert first["kv_transfer_params"] == PREFILL_PARAMS
    assert first["stream"] is False
    assert (first["sampling_params"]["max_tokens"], first["sampling_params"]["n"]) == (1, 1)
    assert first["token_ids"] == second["token_ids"]
    assert second["kv_transfer_params"]["do_remote_prefill"] is True
    assert second["sampling_params"]["max_tokens"] == 50
    assert [one["role"] for one in engines.report()] == ["generate", "prefill"]


async def test_prefill_engines_that_fail_are_passed_over(play):
    engines, (decode, bad, good) = await play(FOUR, prefill=(FOUR.model_copy(update={"fault": "refuse"}), FOUR))
    await engines.generate(request())
    assert (states(bad), states(good), states(decode)) == (["failed"], ["finished"], ["finished"])


async def test_a_prefill_engine_must_say_where_the_cache_is(stack, model):
    async def answer(_):
        return web.json_response({"choices": [{"token_ids": [5]}], "kv_transfer_params": None})

    decode = await stack.enter_async_context(serve_stand_in(model, FOUR))
    url = await stub(stack, answer)
    options = EngineOptions((decode.url,), (url,), health_interval=3600)
    engines = await stack.enter_async_context(opened(options))
    error = await failure(engines.generate(request()))
    assert error.status == 502
    assert "kv_transfer_params" in error.message
    assert decode.requests == []


# -- the connection ----------------------------------------------------------------------------------------------------


async def stub(stack, generate, abort=None):
    """An engine of these handlers; its URL."""

    async def health(_):
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/inference/v1/generate", generate), web.get("/health", health)])
    if abort is not None:
        app.add_routes([web.post("/abort_requests", abort)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def test_engines_get_the_key_and_aborts_name_the_engines_own_id(stack):
    seen = []
    told = asyncio.Event()

    async def generate(http):
        seen.append(http.headers["authorization"])
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(http)
        await response.write(b'data: {"request_id": "made-by-engine", "choices": []}\n\n')
        await asyncio.Event().wait()

    async def abort(http):
        seen.append((http.headers["authorization"], await http.json()))
        told.set()
        return web.Response()

    url = await stub(stack, generate, abort)
    options = EngineOptions((url,), api_key="k", health_interval=3600)
    engines = await stack.enter_async_context(opened(options))
    stream = await engines.stream(request(stream=True))
    await anext(stream)
    await stream.aclose()
    async with asyncio.timeout(SOON):
        await told.wait()
    assert seen == ["Bearer k", ("Bearer k", {"request_ids": ["made-by-engine"]})]


async def test_a_stream_that_nobody_reads_holds_its_engine_up_and_no_other(stack, model):
    written = 0
    event = b'data: {"request_id": "r", "choices": [], "padding": "' + b"x" * 10_000 + b'"}\n\n'

    async def generate(http):
        nonlocal written
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(http)
        for _ in range(10_000):
            await response.write(event)
            written += len(event)
        return response

    url = await stub(stack, generate)
    slow = await stack.enter_async_context(opened(EngineOptions((url,), health_interval=3600)))
    other, _ = Engines(EngineOptions(((await stack.enter_async_context(serve_stand_in(model, FOUR))).url,))), None
    await other.start()
    stack.push_async_callback(other.close)
    stream = await slow.stream(request(stream=True))
    before = -1
    while written != before:  # until the engine is held up
        before = written
        for _ in range(20):
            assert (await ids_of(other))[:4] == [5, 6, 7, 8]
    assert written < 30 * 2**20, "what sockets buffer; the whole is 100 MB"
    for _ in range(1000):
        await anext(stream)
    await stream.aclose()
