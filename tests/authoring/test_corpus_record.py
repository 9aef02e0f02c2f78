"""``derender corpus record``, from the demo's engine and from an OpenAI-compatible one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import Result

from derender_core.testing import assert_case, load_cases
from derender_server.app import create_app
from derender_server.model import DEMO_DIRECTORY, ServedModel
from derender_server.settings import Settings

Run = Callable[..., Result]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
REQUESTS = (
    {
        "id": "oslo",
        "tags": ["weather"],
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    },
    {"messages": [{"role": "user", "content": "Hello!"}], "n": 2, "chat_template_kwargs": {"enable_thinking": False}},
)
PARSERS = ("--tool-parser", "hermes", "--reasoning-parser", "qwen3")


@pytest.fixture(scope="module")
def demo_url() -> Iterator[str]:
    """A demo server in a thread."""
    config = uvicorn.Config(create_app(Settings(model="demo")), port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


class Engine(ThreadingHTTPServer):
    """An OpenAI-compatible server that answers every prompt with one text."""

    def __init__(self, answer: dict[str, Any], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.status = answer, status
        self.seen: list[tuple[str, str | None, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Remembers requests."""

    server: Engine

    def do_POST(self) -> None:
        """Answer."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, self.headers["authorization"], body))
        answer = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[Callable[..., Engine]]:
    """``engine({...}, status=200)``: a running engine with this answer."""
    running: list[tuple[Engine, threading.Thread]] = []

    def start(answer: dict[str, Any], status: int = 200) -> Engine:
        server = Engine(answer, status)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def record(derender: Run, corpus: Callable[..., Path]) -> Callable[..., tuple[Result, Path]]:
    """``record(url, *flags, requests=REQUESTS)``: what the command did, and the file that it wrote."""

    def run(url: str, *flags: str, requests: tuple[Any, ...] = REQUESTS) -> tuple[Result, Path]:
        file = corpus(*requests, name="requests.txt")
        out = file.with_name("recorded.jsonl")
        return derender("corpus", "record", file, "--url", url, "--model", "demo", "--out", out, *flags), out

    return run


def test_token_ids_of_a_generate_engine(
    record: Callable[..., tuple[Result, Path]], demo_url: str, derender: Run
) -> None:
    run, out = record(demo_url, *PARSERS, "--licence", "CC0-1.0")
    assert run.exit_code == 0, run.output
    cases = load_cases(out)
    assert [case.id for case in cases] == ["oslo", "requests-2.0", "requests-2.1"]
    oslo, hello, _ = cases
    assert all(case.unlabelled and case.licence == "CC0-1.0" and case.model == "demo" for case in cases)
    assert (oslo.tool_choice, oslo.tags, oslo.tools[0].name) == ("function:get_weather", ("weather",), "get_weather")
    assert hello.template_kwargs == {"enable_thinking": False}
    assert hello.tools == ()
    tokenizer = ServedModel.load("demo").tokenizer
    assert oslo.token_ids is not None
    assert oslo.text == tokenizer.decode(oslo.token_ids, skip_special_tokens=False)
    assert oslo.prompt is not None
    assert oslo.prompt.endswith("<|im_start|>assistant\n")
    for case in cases:
        assert_case(case, tokenizer=tokenizer)

    checked = derender(
        "check", "hermes", "--corpus", out, "--tokenizer", DEMO_DIRECTORY, "--bless", "--soup", "5"
    )  # fmt: skip
    assert checked.exit_code == 0, checked.output
    out.with_name("recorded.jsonl.proposed").replace(out)
    labelled = {case.id: case for case in load_cases(out)}
    (call,) = labelled["oslo"].alternatives[0].tool_calls
    assert (call.name, list(call.arguments)) == ("get_weather", ["city"])


def test_texts_of_an_openai_compatible_engine(
    record: Callable[..., tuple[Result, Path]], engine: Callable[..., Engine]
) -> None:
    server = engine({"choices": [{"index": 0, "text": "Hi there", "finish_reason": "stop"}]})
    flags = ("--api", "completions", "--engine-model", "served", "--api-key", "secret")
    run, out = record(server.url + "/v1", *flags, requests=REQUESTS[:1])
    assert run.exit_code == 0, run.output
    (case,) = load_cases(out)
    assert (case.text, case.token_ids, case.model, case.finish_reason) == ("Hi there", None, "served", "stop")
    ((path, key, body),) = server.seen
    assert (path, key) == ("/v1/completions", "Bearer secret")
    assert body["model"] == "served"
    assert body["skip_special_tokens"] is False
    assert all(type(token_id) is int for token_id in body["prompt"])


def test_ids_of_an_openai_compatible_engine_are_kept(
    record: Callable[..., tuple[Result, Path]], engine: Callable[..., Engine]
) -> None:
    tokenizer = ServedModel.load("demo").tokenizer
    ids = tokenizer.encode("Hi<|im_end|>")
    server = engine({"choices": [{"index": 0, "text": "Hi", "token_ids": ids, "finish_reason": "stop"}]})
    _, out = record(server.url, "--api", "completions", requests=REQUESTS[:1])
    (case,) = load_cases(out)
    assert (case.text, case.token_ids, case.tokenizer) == ("Hi<|im_end|>", tuple(ids), "demo")


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ({"error": "no such model"}, 404, "answers 404: "),
        ({"choices": [{"text": "no ids"}]}, 200, "answers something else: KeyError('token_ids')"),
        ({"detail": "ok"}, 200, "answers something else: KeyError('choices')"),
    ],
)
def test_an_engine_that_cannot_is_named_with_the_line(
    record: Callable[..., tuple[Result, Path]],
    engine: Callable[..., Engine],
    answer: dict[str, Any],
    status: int,
    says: str,
) -> None:
    run, _ = record(engine(answer, status).url)
    assert run.exit_code == 2
    assert "requests.txt:1: http://127.0.0.1:" in run.output
    assert says in run.output


def test_nobody_at_the_url(record: Callable[..., tuple[Result, Path]]) -> None:
    run, _ = record("http://127.0.0.1:1")
    assert run.exit_code == 2
    assert "does not answer" in run.output


@pytest.mark.parametrize(
    ("request_", "says"),
    [({"prompt": "x"}, "requests.txt:1: a chat request is an object with 'messages'"), ({"messages": 1}, "messages")],
)
def test_a_line_that_is_no_request(
    record: Callable[..., tuple[Result, Path]], demo_url: str, request_: dict[str, Any], says: str
) -> None:
    run, _ = record(demo_url, requests=(request_,))
    assert run.exit_code == 2
    assert says in run.output
