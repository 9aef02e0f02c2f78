"""How WebSockets end, who may open one, and what is counted of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from derender_server.chat_socket import ROUTE

pytestmark = pytest.mark.anyio

THOUGHT_AND_CALL = '<think>\nI call.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'


# -- errors ------------------------------------------------------------------------------------------------------------


async def failure(socket: ClientConnection, *messages: str | bytes) -> tuple[dict[str, Any], int]:
    """The error that messages lead to, and the code that the connection is closed with."""
    for message in messages:
        await socket.send(message)
    async with asyncio.timeout(60):
        error: dict[str, Any] = json.loads(await socket.recv())["error"]
    return error, await code_of_the_end(socket)


async def code_of_the_end(socket: ClientConnection) -> int:
    """What the server closes the connection with, without another message."""
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


@pytest.mark.parametrize("message", ["no JSON", "{", "", "[]", "1", b"\xff\xfe"])
@pytest.mark.parametrize("begun", [False, True])
async def test_what_is_no_json_object_closes_with_1003(running: Any, message: str | bytes, begun: bool) -> None:
    before = [json.dumps(running.context())] if begun else []
    async with running.connect() as socket:
        error, code = await failure(socket, *before, message)
    assert code == 1003
    assert (error["type"], error["code"]) == ("BadRequestError", 400)


@pytest.mark.parametrize(
    ("change", "param", "status"),
    [
        ({"model": "other"}, "model", 404),
        ({"model": 1}, "model", 400),
        ({"chat_request": None}, "chat_request", 400),
        ({"chat_request": {"tools": 1}}, "chat_request.tools", 400),
        ({"prompt_token_ids": [99999]}, "prompt_token_ids.0", 400),
        ({"prompt_tokens": -1}, "prompt_tokens", 400),
        ({"stream_state": {}, "chat_request": {"n": 2}}, "stream_state", 400),
    ],
    ids=str,
)
async def test_a_wrong_context_closes_with_1007(running: Any, change: dict[str, Any], param: str, status: int) -> None:
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps({**running.context(), **change}))
    assert (code, error["param"], error["code"]) == (1007, param, status)


@pytest.mark.parametrize(
    ("chunk", "param"),
    [
        ({"choices": "none"}, "generate_chunk.choices"),
        ({"choices": [{"token_ids": ["1"]}]}, "generate_chunk.choices.0.token_ids.0"),
        ({"choices": [{"token_ids": [-1]}]}, "generate_chunk.choices.0.token_ids.0"),
        ({"choices": [{}, {}]}, "generate_chunk.choices"),
    ],
    ids=str,
)
async def test_a_wrong_chunk_closes_with_1007(running: Any, chunk: dict[str, Any], param: str) -> None:
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(running.context()), json.dumps(chunk))
    assert (code, error["param"], error["code"]) == (1007, param, 400)


async def test_a_wrong_state_closes_with_1007(running: Any) -> None:
    context = running.context(stream_state={"v": 99})
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(context), json.dumps(running.chunks_of([1])[0]))
    assert (code, error["param"]) == (1007, "stream_state.v")


async def test_a_message_over_the_limit_closes_with_1009(serve: Callable[..., Any]) -> None:
    async with serve(body_limit=2000) as running, running.connect() as socket:
        await socket.send(json.dumps({"chat_request": {"messages": [{"role": "user", "content": "x" * 2000}]}}))
        assert await code_of_the_end(socket) == 1009


async def test_a_context_that_never_comes_closes_with_1008(serve: Callable[..., Any]) -> None:
    async with serve(body_timeout=0.05) as running, running.connect() as socket:
        error, code = await failure(socket)
    assert (code, error["code"]) == (1008, 408)


async def test_a_failure_of_the_server_closes_with_1011(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("derender_server.streams.ChatStream.push", fail)
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(running.context()), json.dumps(running.chunks_of([1])[0]))
    assert (code, error["code"]) == (1011, 500)
    assert "secret" not in error["message"]


async def test_the_end_of_the_server_closes_with_1012(serve: Callable[..., Any]) -> None:
    async with serve() as running, running.connect() as socket:
        chunks = running.chunks_of(running.ids("Hello"))
        await running.talk(socket, running.context(), chunks[:1])
        running.server.should_exit = True
        assert await code_of_the_end(socket) == 1012


# -- access, metrics, the gate -----------------------------------------------------------------------------------------


async def refused(running: Any, path: str = ROUTE, **headers: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as refusal:
        async with connect(running.ws + path, additional_headers=headers):
            pass
    response = refusal.value.response
    assert response.headers["x-request-id"]
    return response.status_code, json.loads(response.body)["error"]


async def test_a_key_is_needed_where_keys_are_set(serve: Callable[..., Any]) -> None:
    async with serve(api_key=("good",)) as running:
        for headers in ({}, {"authorization": "Bearer bad"}):
            status, error = await refused(running, **headers)
            assert (status, error["type"]) == (401, "AuthenticationError")
        chunks = running.chunks_of(running.ids("Hello"))
        async with running.connect(authorization="Bearer good") as socket:
            assert len(await running.talk(socket, running.context(), chunks)) == len(chunks)


async def test_other_paths_are_no_websockets(running: Any) -> None:
    for path in ("/v1/chat/completions/derender", "/nowhere"):
        status, error = await refused(running, path)
        assert (status, error["type"]) == (404, "NotFoundError")


async def test_the_request_id_is_echoed(running: Any) -> None:
    headers = {"x-request-id": "a-1"}
    async with running.connect(**headers) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-request-id"] == "a-1"
    status, error = await refused(running, **{"x-request-id": "a" * 300})
    assert (status, error["code"]) == (400, 400)


async def test_nobody_new_while_the_server_ends(serve: Callable[..., Any]) -> None:
    async with serve() as running, running.connect() as socket:
        chunks = running.chunks_of(running.ids("Hello there"))
        await running.talk(socket, running.context(), chunks[:1])
        running.gate.drain(lambda: None, 60)
        status, _ = await refused(running)
        assert status == 503
        await socket.send(json.dumps(chunks[1]))  # what is open goes on
        assert json.loads(await socket.recv())["choices"]


async def test_metrics_count_as_for_the_http_route(running: Any) -> None:
    output, context = THOUGHT_AND_CALL, running.context()
    chunks = running.chunks_of(running.ids(output))
    running.stateless(chunks, context)
    names = (
        "derender_stream_chunks_total",
        "derender_prompt_tokens_total",
        "derender_output_tokens_total",
        "derender_tool_calls_total",
        "derender_reasoning_tokens_total",
    )
    once = [await running.metric(name) for name in names]
    async with running.connect() as socket:
        await running.talk(socket, context, chunks)
    await until_idle(running)
    assert [await running.metric(name) for name in names] == [2 * count for count in once]
    assert all(once)
    assert await running.metric(f'derender_requests_total{{route="{ROUTE}",status="101"}}') == 1


async def test_metrics_count_errors(running: Any) -> None:
    async with running.connect() as socket:
        await failure(socket, "{")
    assert await running.metric(f'derender_errors_total{{route="{ROUTE}",type="BadRequestError"}}') == 1


async def until_idle(running: Any) -> None:
    """The server has noticed that its connections are closed."""
    while running.gate.active:
        await asyncio.sleep(0)
