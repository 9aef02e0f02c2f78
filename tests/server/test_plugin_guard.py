"""A parser that raises or hangs costs its own request, over HTTP, and no other."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import uvicorn

from derender_core import Parser, load_parser
from derender_server.app import create_app
from derender_server.plugin_guard import MAX_STUCK
from derender_server.settings import Settings

# Raises, loops, sleeps or exits when the output says so; else it says what it hears.
MOODY = """
import time
from derender_core import Step, Text, hookimpl

class Moody:
    "Does as the output says."

    @hookimpl
    def derender_parse_delta(self, delta):
        if "raise" in delta.text:
            raise LookupError("moody today")
        if "exit" in delta.text:
            raise SystemExit(1)
        if "nonsense" in delta.text:
            return Step({}, ("nonsense",))
        while "loop" in delta.text:
            pass
        if "swallow" in delta.text:
            while True:
                try:
                    time.sleep(0.01)
                except Exception:
                    pass
        if "wait" in delta.text:
            wait.wait()
        return Step({}, (Text(delta.text),) if delta.text else ())

import threading
wait = threading.Event()
plugin = Moody()
"""

TIMEOUT = 0.3

Client = Callable[..., Any]


@pytest.fixture
def moody(install: Callable[..., None]) -> Iterator[Parser]:
    """An installed parser of moods."""
    install("moody_parsers", "moody = moody_parsers:plugin", MOODY)
    yield load_parser("tool", "moody")
    moods().wait.set()


def moods() -> Any:
    import moody_parsers  # type: ignore[import-not-found]  # written by the fixture

    return moody_parsers


@pytest.fixture
def serve(moody: Parser) -> Iterator[Callable[..., str]]:  # noqa: ARG001 - the parser must be installed
    """``serve(plugin_timeout=...)``: the address of a server, in this process, that answers with the parser."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(**settings: Any) -> str:
        bound = socket.create_server(("127.0.0.1", 0))
        app = create_app(Settings(model="demo", tool_call_parser="moody", enable_auto_tool_choice=True, **settings))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{bound.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


def ask(url: str, text: str, *, stream: bool = False) -> httpx.Response:
    """An answer with this text, as one chunk or as a whole."""
    ids = httpx.post(f"{url}/tokenize", json={"prompt": text, "add_special_tokens": False}, timeout=60).json()["tokens"]
    choice = {"index": 0, "token_ids": ids, "finish_reason": "stop"}
    body: dict[str, Any] = {
        "chat_request": {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "ring"}}],
        },
        "prompt_token_ids": [1],
        "generate_chunk" if stream else "generate_response": {"request_id": "1", "choices": [choice]},
    }
    if stream:
        body["stream"] = True
    return httpx.post(f"{url}/v1/chat/completions/derender", json=body, timeout=60)


def text_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    content: str = response.json()["choices"][0]["message"]["content"]
    return content


def error_of(response: httpx.Response, status: int = 500) -> str:
    assert response.status_code == status, response.text
    message: str = response.json()["error"]["message"]
    return message


@pytest.mark.rule("2.8")
@pytest.mark.parametrize("settings", [{}, {"plugin_timeout": 5.0}], ids=["inline", "guarded"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_parser_that_raises_is_a_500_that_names_it(
    serve: Callable[..., str], moody: Parser, settings: dict[str, Any], stream: bool
) -> None:
    url = serve(**settings)
    message = error_of(ask(url, "please raise", stream=stream))
    assert "tool parser 'moody' of moody_parsers raised LookupError" in message
    assert "moody today" in message
    assert "SystemExit" in error_of(ask(url, "please exit", stream=stream))
    assert "returned from derender_parse_delta str among its events" in error_of(ask(url, "nonsense", stream=stream))
    assert moody.failures == {"derender_parse_delta": 3}
    assert text_of(ask(url, "all is well")) == "all is well"


def test_other_requests_are_answered_while_some_raise(serve: Callable[..., str]) -> None:
    url = serve()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda at: ask(url, "raise" if at % 2 else f"text {at}"), range(40)))
    assert [answer.status_code for answer in answers] == [200, 500] * 20
    assert [text_of(answer) for answer in answers[::2]] == [f"text {at}" for at in range(0, 40, 2)]


@pytest.mark.parametrize("mood", ["loop", "swallow", "wait"])
def test_a_parser_that_hangs_is_a_500_that_names_it(serve: Callable[..., str], moody: Parser, mood: str) -> None:
    url = serve(plugin_timeout=TIMEOUT)
    assert "tool parser 'moody' of moody_parsers took longer than the 0.3 s of --plugin-timeout" in error_of(
        ask(url, f"please {mood}")
    )
    assert moody.failures == {"timeout": 1}
    assert text_of(ask(url, "all is well")) == "all is well"


def test_other_requests_are_answered_while_some_hang(serve: Callable[..., str]) -> None:
    url = serve(plugin_timeout=TIMEOUT, renderer_num_workers=2)
    with ThreadPoolExecutor(8) as pool:
        hanging = [pool.submit(ask, url, "wait") for _ in range(4)]
        fine = [pool.submit(ask, url, f"text {at}") for at in range(8)]
        assert [text_of(answer.result()) for answer in fine] == [f"text {at}" for at in range(8)]
        assert [answer.result().status_code for answer in hanging] == [500] * 4


def test_only_so_many_threads_may_be_stuck_and_they_may_come_back(serve: Callable[..., str]) -> None:
    url = serve(plugin_timeout=TIMEOUT, renderer_num_workers=1)
    with ThreadPoolExecutor(MAX_STUCK) as pool:
        answers = list(pool.map(lambda _: ask(url, "wait"), range(MAX_STUCK)))
    assert [answer.status_code for answer in answers] == [500] * MAX_STUCK
    health = httpx.get(f"{url}/health", timeout=60)
    assert health.status_code == 200
    body = json.dumps({"prompt": "x"})
    refused = httpx.post(f"{url}/tokenize", content=body, headers={"content-type": "application/json"}, timeout=60)
    assert f"{MAX_STUCK} threads are stuck in parsers" in error_of(refused, 503)
    moods().wait.set()
    deadline = time.monotonic() + 30
    while httpx.post(f"{url}/tokenize", json={"prompt": "x"}, timeout=60).status_code == 503:
        assert time.monotonic() < deadline, "the threads do not come back"
        time.sleep(0.05)
    assert text_of(ask(url, "all is well")) == "all is well"


def test_loops_do_not_leave_threads_behind(serve: Callable[..., str]) -> None:
    url = serve(plugin_timeout=TIMEOUT, renderer_num_workers=1)
    for _ in range(MAX_STUCK + 1):
        assert ask(url, "loop").status_code == 500
    assert text_of(ask(url, "all is well")) == "all is well"


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_the_timeout_must_be_a_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="plugin_timeout"):
        Settings(model="demo", plugin_timeout=seconds)
