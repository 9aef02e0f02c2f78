"""The examples, run as a user runs them: each in its own process, against ``derender serve demo`` in another."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
START_SECONDS = 60
DISCLAIMER = "This answer is made by the scripted engine of the derender demo, not by a language model."
THOUGHT = 'The user asks: "What is the weather in Kraków?". The tool `get_weather` is offered, so I call it.'


@pytest.fixture(scope="module")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A demo server on a free port of this machine, for as long as the module's tests run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("demo") / "server.log"
    command = [sys.executable, "-m", "derender_server.cli", "serve", "demo", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_healthy(url, server, log)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server has ended:\n{log.read_text()}"
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server does not answer:\n{log.read_text()}")


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "utf8", str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)


def lines(example: str, url: str, *arguments: str) -> list[str]:
    """What an example prints, without empty lines."""
    done = run(example, "--render-url", url, "--engine-url", url, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def usage(line: str) -> dict[str, int]:
    """Token counts at the end of a line, checked to add up."""
    counts: dict[str, int] = json.loads(line.partition("usage: ")[2])
    assert counts["prompt_tokens"] > 0
    assert counts["completion_tokens"] > 0
    assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]
    return counts


def test_roundtrip_with_a_tool(demo_url: str) -> None:
    thought, call, end, result, second_thought, answer, said, second_end = lines("roundtrip.py", demo_url)
    assert thought == f"reasoning: {THOUGHT}"
    assert call == 'tool call: get_weather({"city": "Kraków", "unit": "celsius"})'
    assert end.startswith("finish_reason: tool_calls, usage: ")
    assert result == 'tool result: {"city": "Kraków", "temperature": 21, "unit": "celsius", "sky": "clear"}'
    assert second_thought.startswith("reasoning: ")
    assert second_thought.endswith("The tools have answered, so I can use what they returned.")
    assert answer == "content: The tool answered: " + result.removeprefix("tool result: ")
    assert said == DISCLAIMER
    assert second_end.startswith("finish_reason: stop, usage: ")
    assert usage(second_end)["prompt_tokens"] > usage(end)["prompt_tokens"]


def test_roundtrip_without_tools(demo_url: str) -> None:
    thought, answer, end = lines("roundtrip.py", demo_url, "--no-tools", "--prompt", "Who sings? 🦜", "--model", "demo")
    assert thought == 'reasoning: The user asks: "Who sings? 🦜". No tool is offered, so I answer directly.'
    assert answer == f'content: You asked: "Who sings? 🦜". {DISCLAIMER}'
    assert end.startswith("finish_reason: stop, usage: ")


def test_streaming_with_a_tool(demo_url: str) -> None:
    thought, call, end, counts = lines("streaming.py", demo_url)
    assert thought == f"reasoning: {THOUGHT}"
    assert call == 'tool call 0: get_weather {"city": "Kraków"}'
    assert end == "finish_reason: tool_calls"
    assert usage(counts)


def test_streaming_without_tools(demo_url: str) -> None:
    thought, answer, end, counts = lines("streaming.py", demo_url, "--no-tools", "--prompt", "Who sings? 🦜")
    assert thought == 'reasoning: The user asks: "Who sings? 🦜". No tool is offered, so I answer directly.'
    assert answer == f'content: You asked: "Who sings? 🦜". {DISCLAIMER}'
    assert end == "finish_reason: stop"
    assert usage(counts)


@pytest.mark.parametrize("example", ["roundtrip.py", "streaming.py"])
def test_an_error_is_shown(demo_url: str, example: str) -> None:
    done = run(example, "--render-url", demo_url, "--engine-url", demo_url, "--model", "nobody")
    assert done.returncode == 1
    assert "HTTP 404" in done.stderr
    assert "The model `nobody` does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_says_that_it_is_one(demo_url: str) -> None:
    answer = httpx.post(f"{demo_url}/inference/v1/generate", json={"token_ids": [1], "sampling_params": {}})
    assert answer.status_code == 200
    detokenized = httpx.post(f"{demo_url}/detokenize", json={"tokens": answer.json()["choices"][0]["token_ids"]})
    assert DISCLAIMER in detokenized.json()["prompt"]
