"""What sends hostile input, and looks at every answer."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from derender_server.app import create_app
from derender_server.settings import Settings

HANG_SECONDS = 120
"""What takes this long hangs. Requests of the fuzz tests take milliseconds."""

FUZZ = int(os.environ.get("DERENDER_FUZZ", "1"))
"""How many times the usual number of cases is tried."""


class Prober:
    """Sends bodies to an application in this process, and looks at what every answer must be like.

    Args:
        app: the application.
        name: of the tests, for the line that tells how many cases were tried.
    """

    def __init__(self, app: Any, name: str) -> None:
        self.app, self.name = app, name
        self.statuses: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def send(
        self, path: str, body: object, *, method: str = "POST", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of the answer to a body; what is not bytes is sent as JSON.

        Raises:
            AssertionError: the answer is none that a client may get.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": "application/json", **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(errors="replace"), "query_string": b"", "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        messages: list[Any] = []
        left = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> Any:
            return left.pop() if left else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)

        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            self._loop.run_until_complete(self.app(scope, receive, send))
        finally:
            faulthandler.cancel_dump_traceback_later()
        status = messages[0]["status"]
        answer = b"".join(message.get("body", b"") for message in messages[1:])
        self.statuses[status] += 1
        assert status < 500, (path, raw[:2000], answer)
        assert b"Traceback" not in answer
        assert b'File \\"' not in answer
        value = json.loads(answer) if answer else None
        if status >= 400:
            assert set(value) == {"error"}
            assert set(value["error"]) == {"message", "type", "param", "code"}
            assert value["error"]["code"] == status
            assert value["error"]["message"]
        assert any(name == b"x-request-id" for name, _ in messages[0]["headers"])
        return status, value

    def close(self) -> str:
        """End, and say how many cases there were."""
        self._loop.close()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._memory) // 1024
        assert grown < 1024, f"{grown} MiB more than before"
        told = ", ".join(f"{count} times {status}" for status, count in sorted(self.statuses.items()))
        return f"{self.name}: {self.statuses.total()} cases ({told}), {grown} MiB more memory at most"


@pytest.fixture(scope="module")
def prober(request: pytest.FixtureRequest) -> Iterator[Callable[..., Prober]]:
    """``prober(name, **settings)``: an application to send hostile bodies to. The number of cases is printed."""
    made: list[Prober] = []

    def make(name: str, **settings: Any) -> Prober:
        made.append(Prober(create_app(Settings(**settings)), name))
        return made[-1]

    yield make
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for one in made:
            print(f"\n{one.close()}", end="", flush=True)


@pytest.fixture(scope="session")
def fuzz_factor() -> int:
    """How many times the usual number of cases is tried: ``DERENDER_FUZZ``."""
    return FUZZ
