"""The projects of ``plugins_example``, as their users have them: wheels in a fresh environment, next to derender's.

The environment is made once. What the wheels depend on is taken from the environment that runs the tests, so that only
building needs a registry. Without one these tests are skipped, except in CI, where they fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "plugins_example"
STANDIN = EXAMPLES / "derender-vllm-bridge" / "tests" / "standin"
PROJECTS = ("derender-example-xml", "derender-example-legacy", "derender-vllm-bridge")
START_SECONDS = 60
RUBBISH = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".*")

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


class Environment:
    """A virtual environment with copies of the projects.

    Args:
        root: its directory.
    """

    def __init__(self, root: Path) -> None:
        self.projects = root / "projects"
        self.programs = root / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.programs / Path(sys.executable).name
        self.variables = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("DERENDER_", "PYTHONPATH", "VIRTUAL"))
        }

    def run(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python."""
        return subprocess.run(
            [self.python, "-X", "utf8", *command],
            capture_output=True,
            encoding="utf-8",
            cwd=cwd or self.projects,
            env=self.variables | variables,
        )

    @contextmanager
    def serve(self, *arguments: str, **variables: str) -> Iterator[httpx.Client]:
        """A client of ``derender serve demo`` with these arguments."""
        log = self.projects / "server.log"
        command = [self.python, "-m", "derender_server.cli", "serve", "demo", "--port", "0", *arguments]
        with log.open("wb") as output:
            env = self.variables | variables
            server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=self.projects, env=env)
        try:
            with httpx.Client(base_url=self._address(server, log), timeout=60) as client:
                yield client
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def _address(self, server: subprocess.Popen[bytes], log: Path) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            found = re.search(r" at (http://\S+)", log.read_text(encoding="utf-8"))
            with suppress(httpx.TransportError):
                if found and httpx.get(f"{found[1]}/health").status_code == 200:
                    return found[1]
            assert server.poll() is None, f"the server has ended:\n{log.read_text(encoding='utf-8')}"
            time.sleep(0.1)
        raise AssertionError(f"the server does not answer:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture(scope="module")
def environment(uv: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh environment with the wheels of derender and of all projects."""
    root = tmp_path_factory.mktemp("plugins")
    environment = Environment(root)
    wheels = root / "wheels"
    copy = root / "derender"
    shutil.copytree(ROOT / "server", copy / "server", ignore=RUBBISH)
    for package in ("derender_core", "derender_plugins", "pytest_derender"):
        shutil.copytree(ROOT / package, copy / package, ignore=RUBBISH)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    for name in PROJECTS:
        shutil.copytree(EXAMPLES / name, environment.projects / name, ignore=RUBBISH)
    for source in (copy, *(environment.projects / name for name in PROJECTS)):
        uv("build", "--wheel", "--out-dir", wheels, source)
    uv("venv", "--python", sys.executable, root / "venv")
    uv("pip", "install", "--python", environment.python, "--no-deps", "--no-index", *sorted(wheels.glob("*.whl")))
    purelib = environment.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=root).stdout.strip()
    # A path file is read after the environment's own packages, and the path files in what it names are not read at all:
    # the derender that is found is the wheel.
    others = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (Path(purelib) / "dependencies.pth").write_text("\n".join(others), encoding="utf-8")
    return environment


def test_the_wheels_are_what_is_tested(environment: Environment) -> None:
    names = ("derender_core", "derender_server", "derender_vllm_bridge")
    script = f"import {', '.join(names)}; print({', '.join(f'{name}.__file__' for name in names)})"
    run = environment.run("-c", script)
    assert run.returncode == 0, run.stderr
    files = run.stdout.split()
    assert [Path(file).is_relative_to(environment.programs.parent) for file in files] == [True] * 3


@pytest.mark.parametrize("name", PROJECTS)
def test_its_own_tests_pass(environment: Environment, name: str) -> None:
    run = environment.run("-m", "pytest", "-p", "no:cacheprovider", cwd=environment.projects / name)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_parsers_are_listed_and_pass_the_check(environment: Environment) -> None:
    variables = {
        "PYTHONPATH": str(STANDIN),
        "DERENDER_VLLM_TOKENIZER": str(ROOT / "server" / "derender_server" / "demo" / "model"),
    }
    names = ["example_xml", "example_legacy", "vllm:tagged", "vllm:think"]
    run = environment.run("-m", "derender_server.cli", "parsers", *names, "--check", "--json", **variables)
    found = {finding["name"]: finding for finding in json.loads(run.stdout)}
    assert sorted(found) == sorted(names)
    assert [finding["problems"] for finding in found.values()] == [[]] * len(names), run.stdout
    assert run.returncode == 0
    assert found["vllm:tagged"]["distribution"] == "derender-vllm-bridge"
    assert found["example_xml"]["distribution"] == "derender-example-xml"


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def derender(client: httpx.Client, output: str, prompt: str = "") -> dict[str, Any]:
    """The message of a whole output."""
    answer = client.post(
        "/v1/chat/completions/derender",
        json={
            **_request(client, prompt),
            "generate_response": {"request_id": "1", "choices": [_choice(_ids(client, output), "stop")]},
        },
    )
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return _plain(message)


def stream(client: httpx.Client, output: str, size: int, prompt: str = "") -> dict[str, Any]:
    """The message that a stream adds up to, in chunks of so many tokens."""
    token_ids = _ids(client, output)
    request = _request(client, prompt)
    state = None
    message: dict[str, Any] = {"content": None, "reasoning": None, "tool_calls": []}
    for at in range(0, len(token_ids), size):
        choice = _choice(token_ids[at : at + size], "stop" if at + size >= len(token_ids) else None)
        chunk = {"request_id": "1", "choices": [choice]}
        body = {**request, "stream": True, "generate_chunk": chunk, "stream_state": state}
        answer = client.post("/v1/chat/completions/derender", json=body)
        assert answer.status_code == 200, answer.text
        state = answer.json()["stream_state"]
        _add(message, answer.json()["chunk"]["choices"][0]["delta"])
    return _plain(message)


def _request(client: httpx.Client, prompt: str) -> dict[str, Any]:
    chat = {"messages": [{"role": "user", "content": "hi"}], "tools": [WEATHER]}
    return {"chat_request": chat, "prompt_token_ids": _ids(client, f"<|im_start|>assistant\n{prompt}")}


def _ids(client: httpx.Client, text: str) -> list[int]:
    ids: list[int] = client.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    return ids


def _choice(token_ids: Sequence[int], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "token_ids": token_ids, "finish_reason": finish_reason}


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key in ("content", "reasoning"):
        if key in delta:
            message[key] = (message[key] or "") + delta[key]
    for part in delta.get("tool_calls", ()):
        if part["index"] == len(message["tool_calls"]):
            message["tool_calls"].append({"function": {"name": part["function"]["name"], "arguments": ""}})
        message["tool_calls"][part["index"]]["function"]["arguments"] += part["function"].get("arguments", "")


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    return {"content": message["content"], "reasoning": message["reasoning"], "calls": calls}


def answers(client: httpx.Client, output: str, expected: dict[str, Any], prompt: str = "") -> None:
    """The output gives this message, at once and in any chunks."""
    assert derender(client, output, prompt) == expected
    for size in (1, 3, 1000):
        assert stream(client, output, size, prompt) == expected


def test_a_server_answers_with_the_examples(environment: Environment) -> None:
    flags = ["--tool-call-parser", "example_xml", "--reasoning-parser", "example_legacy", "--enable-auto-tool-choice"]
    with environment.serve(*flags) as client:
        output = (
            "<scratchpad>They ask for Łódź.</scratchpad>Let me look. "
            '<call name="get_weather"><arg name="city">Łódź</arg><arg name="days">3</arg></call>'
        )
        calls = [("get_weather", {"city": "Łódź", "days": 3})]
        answers(client, output, {"content": "Let me look. ", "reasoning": "They ask for Łódź.", "calls": calls})
        malformed = 'A <call name="get_weather">what</call>'
        answers(client, malformed, {"content": malformed, "reasoning": None, "calls": []})


def test_a_server_answers_with_the_parsers_of_vllm(environment: Environment) -> None:
    flags = ["--tool-call-parser", "vllm:tagged", "--reasoning-parser", "vllm:think", "--enable-auto-tool-choice"]
    variables = {
        "PYTHONPATH": str(STANDIN),
        "DERENDER_VLLM_TOKENIZER": str(ROOT / "server" / "derender_server" / "demo" / "model"),
    }
    with environment.serve(*flags, **variables) as client:
        call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź", "days": 3}}\n</tool_call>'
        calls = [("get_weather", {"city": "Łódź", "days": 3})]
        answers(client, f"<think>Hm.</think>So: {call}", {"content": "So: ", "reasoning": "Hm.", "calls": calls})
        closed = "<think>\n\n</think>\n\n"
        answers(client, f"So: {call}{call}", {"content": "So: ", "reasoning": None, "calls": calls * 2}, prompt=closed)


def test_without_vllm_the_others_still_work(environment: Environment) -> None:
    run = environment.run("-m", "derender_server.cli", "parsers", "--json")
    found = {(info["slot"], info["name"]): info["error"] for info in json.loads(run.stdout)}
    assert "vLLM is not installed in this environment" in found["tool", "vllm:*"]
    assert found["tool", "example_xml"] is None
    with environment.serve("--tool-call-parser", "example_xml") as client:
        assert client.get("/health").status_code == 200
    run = environment.run("-m", "derender_server.cli", "serve", "demo", "--tool-call-parser", "vllm:tagged")
    assert run.returncode == 1
    assert "vLLM is not installed in this environment" in run.stderr
