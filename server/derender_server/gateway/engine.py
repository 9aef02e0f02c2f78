"""One engine: what is known of it, and the HTTP that it speaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from derender_server.gateway.engine_errors import EngineError

__all__ = ["Engine", "NotBegunError", "failure_of", "refusal"]

log = logging.getLogger("derender")

GENERATE = "/inference/v1/generate"
ABORT = "/abort_requests"
"""Of vLLM's tokens-only engines: ``{"request_ids": [...]}``."""
HEALTH = "/health"

PASSED_ON = frozenset({400, 404, 413, 422, 429})
"""Refusals that tell the client what is wrong with its request."""
OVERLOADED = frozenset({429, 503})
"""Refusals that another engine may not share."""

MAX_FAILURES = 3
"""Failures in a row after which an engine gets no requests until a health check finds it well."""
LONGEST_REFUSAL = 65536


class NotBegunError(Exception):
    """The engine has not begun the request, so that another one may be asked.

    Args:
        error: what the client is told if no other can be.
    """

    def __init__(self, error: EngineError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(eq=False)
class Engine:
    """One engine.

    Args:
        url: its base URL.
        session: for all engines.
        healthy: it gets requests.
        running: requests that it works on.
        outstanding: tokens that it is expected to work through for them.
        requests: that it was sent, ever.
        failures: of these, the ones that it failed.
        failed_in_a_row: since the last that it did not fail.
        can_abort: it has the abort route, as far as is known.
    """

    url: str
    session: aiohttp.ClientSession
    healthy: bool = True
    running: int = 0
    outstanding: int = 0
    requests: int = 0
    failures: int = 0
    failed_in_a_row: int = 0
    can_abort: bool = True
    _aborts: set[asyncio.Task[None]] = field(default_factory=set)

    # -- what becomes of its requests --------------------------------------------------------------------------------

    def begin(self, tokens: int) -> None:
        """It is sent a request that is expected to take so many tokens."""
        self.requests += 1
        self.running += 1
        self.outstanding += tokens

    def end(self, tokens: int) -> None:
        """The request is over; so many of its tokens were still expected."""
        self.running -= 1
        self.outstanding -= tokens

    def succeeded(self) -> None:
        """It answered a request or a check."""
        self.failed_in_a_row = 0

    def failed(self, *, unreachable: bool = False) -> None:
        """It failed a request. One that cannot be reached gets no more until a check finds it well."""
        self.failures += 1
        self.failed_in_a_row += 1
        if unreachable or self.failed_in_a_row >= MAX_FAILURES:
            self._set_healthy(False)

    def _set_healthy(self, healthy: bool) -> None:
        if healthy != self.healthy:
            self.healthy = healthy
            log.log(
                logging.INFO if healthy else logging.WARNING, "engine %s is %s", self.url, "back" if healthy else "out"
            )

    def report(self) -> dict[str, Any]:
        """For ``/load``."""
        return {
            "url": self.url,
            "healthy": self.healthy,
            "running": self.running,
            "outstanding_tokens": self.outstanding,
            "requests": self.requests,
            "failures": self.failures,
        }

    # -- HTTP --------------------------------------------------------------------------------------------------------

    async def post(self, body: bytes) -> aiohttp.ClientResponse:
        """Send a request; gives the answer when its head is there and says 200.

        Raises:
            NotBegunError: the engine cannot be reached or takes no more; another one may be asked.
            EngineError: it refused the request, broke, or was silent for too long.
        """
        try:
            response = await self.session.post(
                self.url + GENERATE, data=body, headers={"content-type": "application/json"}, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self.failed(unreachable=True)
            raise NotBegunError(EngineError(503, "No engine could be reached")) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            self.failed()
            raise NotBegunError(EngineError(502, "The engine closed the connection without an answer")) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            self.failed()
            raise failure_of(error) from error
        if response.status == 200:
            return response
        try:
            raise await self._refused(response)
        finally:
            response.close()

    async def _refused(self, response: aiohttp.ClientResponse) -> Exception:
        status = response.status
        try:
            text = await response.content.read(LONGEST_REFUSAL)
        except (aiohttp.ClientError, TimeoutError):
            text = b""
        if status in PASSED_ON:
            error = refusal(status, text)
        else:
            log.error("engine %s answered %d: %s", self.url, status, text.decode(errors="replace"))
            told = (503, "The engine takes no more requests now") if status == 503 else (502, "The engine failed")
            error = EngineError(*told)
        if status not in PASSED_ON:
            self.failed()
        return NotBegunError(error) if status in OVERLOADED else error

    def abort(self, request_id: str) -> None:
        """Have the engine end a request, without waiting for it."""
        if self.can_abort and not self.session.closed:
            task = asyncio.get_running_loop().create_task(self._abort(request_id))
            self._aborts.add(task)
            task.add_done_callback(self._aborts.discard)

    async def _abort(self, request_id: str) -> None:
        timeout = aiohttp.ClientTimeout(total=self.session.timeout.sock_connect)
        try:
            async with self.session.post(
                self.url + ABORT, json={"request_ids": [request_id]}, timeout=timeout
            ) as response:
                self.can_abort = response.status not in (404, 405)
        except (aiohttp.ClientError, TimeoutError) as error:  # the connection is closed, which most engines notice
            log.warning("engine %s could not be told to end a request: %r", self.url, error)

    async def aborted(self) -> None:
        """Wait until all aborts are sent."""
        await asyncio.gather(*self._aborts)

    async def check(self) -> None:
        """See whether it is well. One without a health route is, when it answers."""
        timeout = aiohttp.ClientTimeout(total=self.session.timeout.sock_connect)
        try:
            async with self.session.get(self.url + HEALTH, timeout=timeout) as response:
                is_well = response.status < 500
        except (aiohttp.ClientError, TimeoutError):
            is_well = False
        if is_well:
            self.succeeded()
        self._set_healthy(is_well)


def failure_of(error: Exception) -> EngineError:
    """What the client is told when reading from an engine failed."""
    if isinstance(error, TimeoutError):
        return EngineError(504, "The engine was silent for too long (--engine-read-timeout)")
    return EngineError(502, "The engine broke off in the middle of its answer")


def refusal(status: int, text: bytes) -> EngineError:
    """What an engine refused, in its own words: in the shape of OpenAI's errors, of vLLM's older ones, or FastAPI's."""
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        body = None
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    found: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
    message, param = found.get("message", found.get("detail")), found.get("param")
    shown = message if isinstance(message, str) and message else f"it answered {status}"
    return EngineError(status, f"The engine refused the request: {shown}", param if isinstance(param, str) else None)
