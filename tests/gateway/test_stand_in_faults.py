"""How the scripted engine fails when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from derender_server.cli import main
from derender_server.demo.engine import GENERATE_PATH
from derender_server.demo.stand_in import StandIn, serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.model import ServedModel

pytestmark = pytest.mark.anyio

FOUR = [5, 6, 7, 8]
MIDWAY = {"token_ids": FOUR, "fault_after": 2}


@pytest.fixture
async def engine() -> AsyncIterator[StandIn]:
    async with serve_stand_in(ServedModel.load("demo")) as engine:
        yield engine


@pytest.fixture
async def client(engine: StandIn) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine.url, timeout=60) as client:
        yield client


async def ask(
    client: httpx.AsyncClient, *, stream: bool = True, timeout: float = 60, **switches: Any
) -> tuple[int, list[str], Exception | None]:
    """Status, lines that are not empty, and what the client ran into."""
    told = {"extra_args": {"demo_engine": {"token_ids": FOUR, **switches}}}
    request = {"request_id": "r-1", "token_ids": [1, 2], "stream": stream, "sampling_params": told}
    status, lines = 0, []
    try:
        async with client.stream("POST", GENERATE_PATH, json=request, timeout=timeout) as response:
            status = response.status_code
            async for line in response.aiter_lines():
                lines += [line] if line else []
    except httpx.TransportError as error:
        return status, lines, error
    return status, lines, None


def states(engine: StandIn) -> list[str]:
    return [playing.state for playing in engine.requests]


@pytest.mark.parametrize("stream", [True, False])
async def test_refuse(client: httpx.AsyncClient, engine: StandIn, stream: bool) -> None:
    status, lines, error = await ask(client, fault="refuse", stream=stream)
    assert (status, lines) == (0, [])
    assert isinstance(error, httpx.RemoteProtocolError)
    assert states(engine) == ["failed"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("code", [400, 404, 429, 500, 503])
async def test_status(client: httpx.AsyncClient, engine: StandIn, stream: bool, code: int) -> None:
    status, lines, error = await ask(client, fault="status", fault_status=code, stream=stream)
    assert (status, error) == (code, None)
    assert json.loads(lines[0])["error"]["code"] == code
    assert states(engine) == ["failed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_hang(client: httpx.AsyncClient, engine: StandIn, stream: bool) -> None:
    status, lines, error = await ask(client, fault="hang", stream=stream, timeout=0.05)
    assert (status, lines) == (0, [])
    assert isinstance(error, httpx.ReadTimeout)
    await engine.until(lambda: states(engine) == ["disconnected"])


@pytest.mark.parametrize("stream", [True, False])
async def test_not_sse(client: httpx.AsyncClient, stream: bool) -> None:
    status, lines, error = await ask(client, fault="not_sse", stream=stream)
    assert (status, error) == (200, None)
    assert lines[0].startswith("<html>")


async def test_drop(client: httpx.AsyncClient, engine: StandIn) -> None:
    status, lines, error = await ask(client, fault="drop", **MIDWAY)
    assert status == 200
    assert len(lines) == 2
    assert isinstance(error, httpx.RemoteProtocolError)
    assert states(engine) == ["failed"]


async def test_drop_of_a_whole_answer(client: httpx.AsyncClient, engine: StandIn) -> None:
    status, _, error = await ask(client, fault="drop", stream=False)
    assert status == 200
    assert isinstance(error, httpx.RemoteProtocolError)
    assert states(engine) == ["failed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_stall(client: httpx.AsyncClient, engine: StandIn, stream: bool) -> None:
    status, lines, error = await ask(client, fault="stall", timeout=0.05, stream=stream, **MIDWAY)
    assert isinstance(error, httpx.ReadTimeout)
    assert (status, len(lines)) == ((200, 2) if stream else (0, 0))
    await engine.until(lambda: states(engine) == ["disconnected"])


async def test_error_event(client: httpx.AsyncClient, engine: StandIn) -> None:
    status, lines, error = await ask(client, fault="error", fault_status=503, **MIDWAY)
    assert (status, error) == (200, None)
    assert json.loads(lines[2].removeprefix("data: "))["error"]["code"] == 503
    assert lines[3:] == ["data: [DONE]"]
    assert states(engine) == ["failed"]


async def test_error_of_a_whole_answer(client: httpx.AsyncClient) -> None:
    status, _, error = await ask(client, fault="error", stream=False)
    assert (status, error) == (500, None)


@pytest.mark.parametrize("garbage", ['{"choices": [{', '{"choices": 1}', "[]", "null"])
async def test_garbage(client: httpx.AsyncClient, garbage: str) -> None:
    _, lines, error = await ask(client, fault="garbage", garbage=garbage, **MIDWAY)
    assert error is None
    assert lines[2] == f"data: {garbage}"
    assert len(lines) == 6  # it goes on
    assert (await ask(client, fault="garbage", garbage=garbage, stream=False))[1] == [garbage]


async def test_unfinished(client: httpx.AsyncClient) -> None:
    _, lines, error = await ask(client, fault="unfinished", **MIDWAY)
    assert error is None
    assert len(lines) == 3
    assert lines[-1] == "data: [DONE]"


async def test_no_done(client: httpx.AsyncClient) -> None:
    _, lines, error = await ask(client, fault="no_done")
    assert error is None
    assert len(lines) == 4
    assert json.loads(lines[-1].removeprefix("data: "))["choices"][0]["finish_reason"] == "stop"


async def test_only_the_first_requests_fail(client: httpx.AsyncClient, engine: StandIn) -> None:
    engine.switches = Switches(fault="status", fault_status=503, fault_times=2)
    request = {"token_ids": [1, 2]}
    assert [(await client.post(GENERATE_PATH, json=request)).status_code for _ in range(4)] == [503, 503, 200, 200]
    own = [await ask(client, fault="status", fault_times=1) for _ in range(2)]  # counted by the request's id
    assert [status for status, _, _ in own] == [503, 200]


def test_the_command_serves_until_it_is_told_to_end() -> None:
    command = [
        sys.executable,
        "-m",
        "derender_server.cli",
        "demo-engine",
        "--port",
        "0",
        "--text",
        "Hi",
        "--fault",
        "error",
    ]
    process = subprocess.Popen([*command, "--fault-after", "1"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        url = process.stderr.readline().rpartition(" at ")[2].strip()
        assert httpx.get(f"{url}/demo/switches").json()["fault_after"] == 1
        text = httpx.post(f"{url}{GENERATE_PATH}", json={"token_ids": [1], "stream": True}).text
        assert '"error"' in text.split("\n\n")[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.stderr.close()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--token-delay", "-1"], "--token-delay"),
        (["--tokens-per-chunk", "3", "--max-tokens-per-chunk", "2"], "max_tokens_per_chunk"),
        (["--fault", "fire"], "'fire'"),
        (["no/such/model"], "no/such/model"),
    ],
    ids=str,
)
def test_the_command_says_what_is_wrong(flags: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["demo-engine", "--port", "0", *flags])
    assert result.exit_code != 0
    assert message in result.output
