"""The scripted engine as a server of its own: what it says, and what becomes of its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from derender_server.demo.engine import GENERATE_PATH
from derender_server.demo.stand_in import StandIn, serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.model import ServedModel

pytestmark = pytest.mark.anyio

FOUR = [5, 6, 7, 8]


@pytest.fixture(scope="module")
def model() -> ServedModel:
    return ServedModel.load("demo")


@pytest.fixture
async def engine(model: ServedModel) -> AsyncIterator[StandIn]:
    async with serve_stand_in(model) as engine:
        yield engine


@pytest.fixture
async def client(engine: StandIn) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine.url, timeout=60) as client:
        yield client


def body(*, stream: bool = True, sampling: dict[str, Any] | None = None, **switches: Any) -> dict[str, Any]:
    """A request with switches of its own."""
    told = {"extra_args": {"demo_engine": switches}} if switches else {}
    return {"request_id": "r-1", "token_ids": [1, 2], "stream": stream, "sampling_params": {**told, **(sampling or {})}}


def events(text: str) -> list[str]:
    """The data of events."""
    *found, rest = text.split("\n\n")
    assert rest == ""
    return [event.removeprefix("data: ") for event in found]


async def stream(client: httpx.AsyncClient, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a stream that ends as it should."""
    response = await client.post(GENERATE_PATH, json=request)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    *chunks, done = events(response.text)
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def ids_of(chunks: list[dict[str, Any]], index: int = 0) -> list[list[int]]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [choice["token_ids"] for choice in choices if choice["index"] == index]


def joined(pieces: list[list[int]]) -> list[int]:
    return [token_id for piece in pieces for token_id in piece]


# -- what it says ------------------------------------------------------------------------------------------------------


async def test_the_script_streams_as_one_shot(client: httpx.AsyncClient) -> None:
    whole = (await client.post(GENERATE_PATH, json=body(stream=False))).json()
    chunks = await stream(client, {**body(), "stream_options": {"include_usage": True}})
    assert joined(ids_of(chunks)) == whole["choices"][0]["token_ids"]
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"] == whole["usage"]


async def test_exact_ids(client: httpx.AsyncClient) -> None:
    chunks = await stream(client, body(token_ids=FOUR, tokens_per_chunk=3))
    assert ids_of(chunks) == [[5, 6, 7], [8]]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, "stop"]
    cut = await stream(client, body(token_ids=FOUR, sampling={"max_tokens": 2}))
    assert ids_of(cut) == [[5], [6]]
    assert cut[-1]["choices"][0]["finish_reason"] == "length"


async def test_exact_text_ends_with_the_end_token(client: httpx.AsyncClient, model: ServedModel) -> None:
    chunks = await stream(client, body(text="Hello there"))
    assert joined(ids_of(chunks)) == [*model.tokenizer.encode("Hello there"), model.eos_token_id]


async def test_choices_have_their_own_lines(client: httpx.AsyncClient) -> None:
    chunks = await stream(client, body(token_ids=[[1, 2, 3], [4]], sampling={"n": 3}))
    assert [ids_of(chunks, index) for index in range(3)] == [[[1], [2], [3]], [[4]], [[1], [2], [3]]]
    texts = await stream(client, body(text=["a", "b"], tokens_per_chunk=99, sampling={"n": 2}))
    assert ids_of(texts, 0) != ids_of(texts, 1)


async def test_reasons(client: httpx.AsyncClient) -> None:
    (chunk,) = await stream(client, body(token_ids=[1], finish_reason="stop", stop_reason=17))
    assert (chunk["choices"][0]["finish_reason"], chunk["choices"][0]["stop_reason"]) == ("stop", 17)


async def test_random_sizes_are_the_same_for_the_same_seed(client: httpx.AsyncClient) -> None:
    ids = list(range(200))

    async def sizes(seed: int) -> list[int]:
        chunks = await stream(client, body(token_ids=ids, tokens_per_chunk=2, max_tokens_per_chunk=9, seed=seed))
        assert joined(ids_of(chunks)) == ids
        return [len(piece) for piece in ids_of(chunks)]

    first = await sizes(1)
    assert first == await sizes(1) != await sizes(2)
    assert {*first[:-1]} <= set(range(2, 10))
    assert len({*first}) > 3


async def test_comments(client: httpx.AsyncClient) -> None:
    response = await client.post(GENERATE_PATH, json=body(token_ids=[1, 2], comments=True))
    lines = [event for event in events(response.text) if event.startswith(":")]
    assert len(lines) == 3


async def test_a_prefill_engine_hands_its_cache_on(client: httpx.AsyncClient) -> None:
    request = {**body(stream=False), "kv_transfer_params": {"do_remote_decode": True}}
    params = (await client.post(GENERATE_PATH, json=request)).json()["kv_transfer_params"]
    assert params["do_remote_prefill"] is True
    assert params["remote_block_ids"] == [0]
    assert (await client.post(GENERATE_PATH, json=body(stream=False))).json()["kv_transfer_params"] is None


async def test_delays_hold_tokens_back(client: httpx.AsyncClient, engine: StandIn) -> None:
    async with client.stream("POST", GENERATE_PATH, json=body(token_ids=FOUR, first_token_delay=3600)) as response:
        assert response.status_code == 200  # the head comes at once
        assert [playing.chunks for playing in engine.requests] == [0]
    async with client.stream("POST", GENERATE_PATH, json=body(token_ids=FOUR, token_delay=0.001)) as response:
        assert len(events((await response.aread()).decode())) == 5


@pytest.mark.parametrize(
    ("switches", "param"),
    [
        ({"speed": 1}, "speed"),
        ({"token_delay": -1}, "token_delay"),
        ({"token_delay": "1"}, "token_delay"),
        ({"fault": "fire"}, "fault"),
        ({"tokens_per_chunk": 0}, "tokens_per_chunk"),
    ],
    ids=str,
)
async def test_wrong_switches_are_named(client: httpx.AsyncClient, switches: dict[str, Any], param: str) -> None:
    response = await client.post(GENERATE_PATH, json=body(**switches))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == f"sampling_params.extra_args.demo_engine.{param}"


async def test_sizes_in_order(client: httpx.AsyncClient) -> None:
    response = await client.post(GENERATE_PATH, json=body(tokens_per_chunk=4, max_tokens_per_chunk=2))
    assert response.status_code == 400
    assert "max_tokens_per_chunk" in response.json()["error"]["message"]


async def test_wrong_requests(client: httpx.AsyncClient) -> None:
    assert (await client.post(GENERATE_PATH, json={"token_ids": []})).status_code == 400
    assert (await client.post(GENERATE_PATH, json={"token_ids": [1], "model": "other"})).status_code == 404


# -- what becomes of requests ------------------------------------------------------------------------------------------


async def test_an_abort_ends_a_stream(client: httpx.AsyncClient, engine: StandIn) -> None:
    request = body(token_ids=[FOUR, [9]], fault="stall", fault_after=2, sampling={"n": 2})
    async with client.stream("POST", GENERATE_PATH, json=request) as response:
        lines = response.aiter_lines()
        assert [bool(await anext(lines)) for _ in range(4)] == [True, False, True, False]
        assert (await client.post("/abort_requests", json={"request_ids": ["r-1", "r-2"]})).status_code == 200
        rest = [json.loads(line[6:]) async for line in lines if line.startswith("data: {")]
    (choice,) = (choice for chunk in rest for choice in chunk["choices"])
    assert (choice["index"], choice["token_ids"], choice["finish_reason"]) == (0, [], "abort")
    (playing,) = engine.requests
    assert (playing.state, playing.chunks, playing.tokens) == ("aborted", 2, 2)


async def test_an_abort_ends_a_whole_answer(client: httpx.AsyncClient, engine: StandIn) -> None:
    request = body(stream=False, token_ids=FOUR, first_token_delay=3600)
    answer = asyncio.create_task(client.post(GENERATE_PATH, json=request))
    await engine.until(lambda: len(engine.requests) == 1)
    await client.post("/abort_requests", json={"request_ids": ["r-1"]})
    assert (await answer).json()["choices"][0]["finish_reason"] == "abort"
    assert engine.requests[0].state == "aborted"


@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_goes_away_is_noticed(client: httpx.AsyncClient, engine: StandIn, streams: bool) -> None:
    request = body(stream=streams, token_ids=FOUR, token_delay=3600)
    answer = asyncio.create_task(client.post(GENERATE_PATH, json=request))
    await engine.until(lambda: len(engine.requests) == 1)
    answer.cancel()
    await engine.until(lambda: engine.requests[0].state == "disconnected")
    assert engine.requests[0].chunks == 0


async def test_a_slow_client_holds_its_own_stream(client: httpx.AsyncClient, engine: StandIn) -> None:
    request = body(token_ids=[1] * 3000, sampling={"n": 12, "logprobs": 20})  # some 40 MB, more than sockets buffer
    async with client.stream("POST", GENERATE_PATH, json={**request, "request_id": "slow"}) as response:
        assert len(await stream(client, body(token_ids=FOUR))) == 4
        slow = next(playing for playing in engine.requests if playing.request_id == "slow")
        assert slow.state == "running"
        async for _ in response.aiter_raw():
            pass
    assert (slow.state, slow.tokens) == ("finished", 36_000)


async def test_requests_are_shown(client: httpx.AsyncClient) -> None:
    await stream(client, body(token_ids=FOUR))
    await stream(client, {**body(token_ids=[1]), "request_id": "r-2"})
    first, _ = (await client.get("/demo/requests")).json()
    assert (first["request_id"], first["state"], first["chunks"], first["tokens"]) == ("r-1", "finished", 4, 4)
    assert first["abort_requested"] is False
    assert first["request"]["token_ids"] == [1, 2]
    (second,) = (await client.get("/demo/requests", params={"request_id": "r-2", "until": "ended"})).json()
    assert second["tokens"] == 1
    await client.post("/abort_requests", json={"request_ids": ["r-2"]})
    (late,) = (await client.get("/demo/requests", params={"request_id": "r-2"})).json()
    assert (late["state"], late["abort_requested"]) == ("finished", True)


async def test_waiting_for_a_request_to_end(client: httpx.AsyncClient, engine: StandIn) -> None:
    answer = asyncio.create_task(client.post(GENERATE_PATH, json=body(token_delay=3600)))
    shown = asyncio.create_task(client.get("/demo/requests", params={"request_id": "r-1", "until": "ended"}))
    await engine.until(lambda: len(engine.requests) == 1)
    answer.cancel()
    assert [record["state"] for record in (await shown).json()] == ["disconnected"]


async def test_switches_of_the_engine(client: httpx.AsyncClient, engine: StandIn) -> None:
    told = {"token_ids": [3, 4], "tokens_per_chunk": 2}
    assert (await client.put("/demo/switches", json=told)).status_code == 200
    assert engine.switches == Switches(token_ids=[3, 4], tokens_per_chunk=2)
    assert (await client.get("/demo/switches")).json()["token_ids"] == [3, 4]
    assert ids_of(await stream(client, body())) == [[3, 4]]
    assert ids_of(await stream(client, body(tokens_per_chunk=1))) == [[3], [4]]  # a request's own go over them
    response = await client.put("/demo/switches", json={"fault": "fire"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "fault")


async def test_health_models_and_aborts_as_told(client: httpx.AsyncClient, engine: StandIn) -> None:
    assert (await client.get("/health")).status_code == 200
    assert (await client.get("/v1/models")).json()["data"][0]["id"] == "demo"
    assert (await client.post("/abort_requests", json={})).status_code == 400
    assert (await client.post("/abort_requests", content="{")).status_code == 400
    engine.switches = Switches(health_status=503, abort_status=404)
    assert (await client.get("/health")).status_code == 503
    assert (await client.post("/abort_requests", json={"request_ids": []})).status_code == 404
