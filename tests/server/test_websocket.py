"""The WebSocket of chat streams: what the stateless calls say, the state kept by the connection; and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from derender_server.app import create_app
from derender_server.chat_socket import ROUTE
from derender_server.gate import Application
from derender_server.services import Services
from derender_server.serving import Server
from derender_server.settings import Settings

pytestmark = pytest.mark.anyio

PROMPT = "<|im_start|>user\nWhat is the weather in Łódź?<|im_end|>\n<|im_start|>assistant\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
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


class Running:
    """A server in this process, and its clients."""

    def __init__(self, server: Server, app: Application, address: tuple[str, int]) -> None:
        self.server, self.gate = server, app.gate
        self.services: Services = app.state.services
        self.http, self.ws = (f"{scheme}://{address[0]}:{address[1]}" for scheme in ("http", "ws"))

    def connect(self, **headers: str) -> Any:
        return connect(self.ws + ROUTE, additional_headers=headers, compression=None)

    def ids(self, text: str) -> list[int]:
        return self.services.model.tokenizer.encode(text)

    def context(self, request: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        chat = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], **(request or {})}
        return {"chat_request": chat, "prompt_token_ids": self.ids(PROMPT), **fields}

    def stateless(self, chunks: list[dict[str, Any]], context: dict[str, Any]) -> list[dict[str, Any]]:
        """What the HTTP route makes of the chunks, the client keeping a state for each choice."""
        states: dict[int, Any] = {}
        answers = []
        for chunk in chunks:
            index = chunk["choices"][0]["index"] if chunk["choices"] else 0
            body = {"stream": True, "generate_chunk": chunk, "stream_state": states.get(index), **context}
            answer = json.loads(self.services.derender_chat(json.dumps(body).encode()))
            states[index] = answer["stream_state"]
            answers.append(answer["chunk"])
        return answers

    async def metric(self, name: str) -> float:
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"{self.http}/metrics")).text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def serve() -> Serve:
    """``async with serve(flag=...) as running``: the demo under uvicorn, on a free port."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Running]:
        told = Settings(model="demo", port=0, **settings)
        app = create_app(told)
        server = Server(app, told)
        bound = server.config.bind_socket()
        task = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0)
        yield Running(server, app, bound.getsockname()[:2])
        server.should_exit = True
        await task

    return start


@pytest.fixture
async def running(serve: Serve) -> AsyncIterator[Running]:
    async with serve() as running:
        yield running


def chunks_of(token_ids: list[int], size: int = 1, index: int = 0, reason: str = "stop", **more: Any) -> list[Any]:
    """An engine's chunks."""
    pieces = [token_ids[at : at + size] for at in range(0, len(token_ids), size)]
    return [
        {
            "request_id": "chatcmpl-1",
            "choices": [
                {"index": index, "token_ids": piece, "finish_reason": reason if at == len(pieces) - 1 else None, **more}
            ],
        }
        for at, piece in enumerate(pieces)
    ]


async def talk(socket: ClientConnection, context: Any, chunks: list[Any]) -> list[dict[str, Any]]:
    await socket.send(json.dumps(context))
    answers = []
    for chunk in chunks:
        await socket.send(json.dumps(chunk))
        answers.append(json.loads(await socket.recv()))
    return answers


def timeless(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**chunk, "created": 0} for chunk in chunks]


# -- the same as the stateless calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_the_same_as_the_stateless_calls(running: Running, output: str, size: int) -> None:
    reason = "length" if "cut" in output or output == OUTPUTS["a cut call"] else "stop"
    chunks = chunks_of(running.ids(output), size, reason=reason)
    context = running.context()
    async with running.connect() as socket:
        answers = await talk(socket, context, chunks)
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
async def test_options_of_the_request(running: Running, request_fields: dict[str, Any]) -> None:
    output = OUTPUTS["thoughts"] + OUTPUTS["characters of several tokens"] + CALL
    chunks, context = chunks_of(running.ids(output)), running.context(request_fields)
    async with running.connect() as socket:
        answers = await talk(socket, context, chunks)
    assert timeless(answers) == timeless(running.stateless(chunks, context))


async def test_logprobs(running: Running) -> None:
    chunks = chunks_of(running.ids(OUTPUTS["characters of several tokens"]))
    for chunk in chunks:
        (choice,) = chunk["choices"]
        choice["logprobs"] = {"content": [{"token_id": item, "logprob": -0.5} for item in choice["token_ids"]]}
    context = running.context({"logprobs": True})
    async with running.connect() as socket:
        answers = await talk(socket, context, chunks)
    assert timeless(answers) == timeless(running.stateless(chunks, context))
    assert answers[0]["choices"][0]["logprobs"]["content"]


async def test_choices_interleave_and_usage_counts_all(running: Running) -> None:
    streams = [chunks_of(running.ids(OUTPUTS[name]), 2, at) for at, name in enumerate(("thoughts", "a call"))]
    chunks = [chunk for pair in itertools.zip_longest(*streams) for chunk in pair if chunk is not None]
    context = running.context({"n": 2})
    count = sum(len(running.ids(OUTPUTS[name])) for name in ("thoughts", "a call"))
    usage = {"request_id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": count}}
    async with running.connect() as socket:
        *answers, last = await talk(socket, context, [*chunks, usage])
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


async def test_binary_frames_are_json_too(running: Running) -> None:
    chunks, context = chunks_of(running.ids("Hello")), running.context()
    async with running.connect() as socket:
        await socket.send(json.dumps(context).encode())
        await socket.send(json.dumps(chunks[0]).encode())
        answer = await socket.recv()
    assert isinstance(answer, str)
    assert timeless([json.loads(answer)]) == timeless(running.stateless(chunks[:1], context))


async def test_chunks_need_not_wait_for_answers(running: Running) -> None:
    chunks, context = chunks_of(running.ids("Hello there, dear reader!")), running.context()
    async with running.connect() as socket:
        for message in (context, *chunks):
            await socket.send(json.dumps(message))
        answers = [json.loads(await socket.recv()) for _ in chunks]
    assert timeless(answers) == timeless(running.stateless(chunks, context))


@pytest.mark.parametrize("secret", [None, "a secret"])
async def test_a_stream_that_began_elsewhere_goes_on(serve: Serve, secret: str | None) -> None:
    async with serve(state_secret=secret) as running:
        chunks, context = chunks_of(running.ids(OUTPUTS["a call"])), running.context()
        whole = running.stateless(chunks, context)
        state = None
        for chunk in chunks[:9]:
            body = {"stream": True, "generate_chunk": chunk, "stream_state": state, **context}
            state = json.loads(running.services.derender_chat(json.dumps(body).encode()))["stream_state"]
        async with running.connect() as socket:
            answers = await talk(socket, {**context, "stream_state": state}, chunks[9:])
    assert timeless(answers) == timeless(whole[9:])


async def test_a_stream_of_another_server_goes_on_by_replay(running: Running) -> None:
    ids = running.ids(OUTPUTS["a call"])
    chunks, context = chunks_of(ids), running.context()
    state = {"output_token_ids": ids[:5], "output_chunk_lens": [1] * 5, "role_sent": True, "tools_streamed": False}
    async with running.connect() as socket:
        answers = await talk(socket, {**context, "stream_state": state}, chunks[5:])
    assert timeless(answers) == timeless(running.stateless(chunks, context)[5:])


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
async def test_what_is_no_json_object_closes_with_1003(running: Running, message: str | bytes, begun: bool) -> None:
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
async def test_a_wrong_context_closes_with_1007(
    running: Running, change: dict[str, Any], param: str, status: int
) -> None:
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
async def test_a_wrong_chunk_closes_with_1007(running: Running, chunk: dict[str, Any], param: str) -> None:
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(running.context()), json.dumps(chunk))
    assert (code, error["param"], error["code"]) == (1007, param, 400)


async def test_a_wrong_state_closes_with_1007(running: Running) -> None:
    context = running.context(stream_state={"v": 99})
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(context), json.dumps(chunks_of([1])[0]))
    assert (code, error["param"]) == (1007, "stream_state.v")


async def test_a_message_over_the_limit_closes_with_1009(serve: Serve) -> None:
    async with serve(body_limit=2000) as running, running.connect() as socket:
        await socket.send(json.dumps({"chat_request": {"messages": [{"role": "user", "content": "x" * 2000}]}}))
        assert await code_of_the_end(socket) == 1009


async def test_a_context_that_never_comes_closes_with_1008(serve: Serve) -> None:
    async with serve(body_timeout=0.05) as running, running.connect() as socket:
        error, code = await failure(socket)
    assert (code, error["code"]) == (1008, 408)


async def test_a_failure_of_the_server_closes_with_1011(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("derender_server.streams.ChatStream.push", fail)
    async with running.connect() as socket:
        error, code = await failure(socket, json.dumps(running.context()), json.dumps(chunks_of([1])[0]))
    assert (code, error["code"]) == (1011, 500)
    assert "secret" not in error["message"]


async def test_the_end_of_the_server_closes_with_1012(serve: Serve) -> None:
    async with serve() as running, running.connect() as socket:
        chunks = chunks_of(running.ids("Hello"))
        await talk(socket, running.context(), chunks[:1])
        running.server.should_exit = True
        assert await code_of_the_end(socket) == 1012


# -- access, metrics, the gate -----------------------------------------------------------------------------------------


async def refused(running: Running, path: str = ROUTE, **headers: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as refusal:
        async with connect(running.ws + path, additional_headers=headers):
            pass
    response = refusal.value.response
    assert response.headers["x-request-id"]
    return response.status_code, json.loads(response.body)["error"]


async def test_a_key_is_needed_where_keys_are_set(serve: Serve) -> None:
    async with serve(api_key=("good",)) as running:
        for headers in ({}, {"authorization": "Bearer bad"}):
            status, error = await refused(running, **headers)
            assert (status, error["type"]) == (401, "AuthenticationError")
        chunks = chunks_of(running.ids("Hello"))
        async with running.connect(authorization="Bearer good") as socket:
            assert len(await talk(socket, running.context(), chunks)) == len(chunks)


async def test_other_paths_are_no_websockets(running: Running) -> None:
    for path in ("/v1/chat/completions/derender", "/nowhere"):
        status, error = await refused(running, path)
        assert (status, error["type"]) == (404, "NotFoundError")


async def test_the_request_id_is_echoed(running: Running) -> None:
    headers = {"x-request-id": "a-1"}
    async with running.connect(**headers) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-request-id"] == "a-1"
    status, error = await refused(running, **{"x-request-id": "a" * 300})
    assert (status, error["code"]) == (400, 400)


async def test_nobody_new_while_the_server_ends(serve: Serve) -> None:
    async with serve() as running, running.connect() as socket:
        chunks = chunks_of(running.ids("Hello there"))
        await talk(socket, running.context(), chunks[:1])
        running.gate.drain(lambda: None, 60)
        status, _ = await refused(running)
        assert status == 503
        await socket.send(json.dumps(chunks[1]))  # what is open goes on
        assert json.loads(await socket.recv())["choices"]


async def test_metrics_count_as_for_the_http_route(running: Running) -> None:
    output, context = OUTPUTS["a call"], running.context()
    chunks = chunks_of(running.ids(output))
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
        await talk(socket, context, chunks)
    await until_idle(running)
    assert [await running.metric(name) for name in names] == [2 * count for count in once]
    assert all(once)
    assert await running.metric(f'derender_requests_total{{route="{ROUTE}",status="101"}}') == 1


async def test_metrics_count_errors(running: Running) -> None:
    async with running.connect() as socket:
        await failure(socket, "{")
    assert await running.metric(f'derender_errors_total{{route="{ROUTE}",type="BadRequestError"}}') == 1


async def until_idle(running: Running) -> None:
    """The server has noticed that its connections are closed."""
    while running.gate.active:
        await asyncio.sleep(0)
