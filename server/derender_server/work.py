"""Where work runs: short work on the event loop, long work on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from derender_server.errors import OverloadedError
from derender_server.plugin_guard import MAX_STUCK, PluginGuard

__all__ = ["DERENDER_INLINE_BYTES", "RENDER_INLINE_BYTES", "Work"]

T = TypeVar("T")

DERENDER_INLINE_BYTES = 32768
RENDER_INLINE_BYTES = 8192
"""Bodies up to these sizes are answered on the event loop, longer ones on a thread.

Measured on one core: the way to a thread and back costs 80 us. Derendering costs 60 us, and 0.06 us for each byte of
the body (one-shot, 4 bytes a token) or 0.03 us (with log probabilities); rendering 120 us, and 0.14 us a byte. So the
longest stay on the loop is 1 to 2 ms, and where the way to a thread is taken it is a tenth of the work or less. A
streamed chunk is short work whatever the length of its body, but it rarely has a body that long.
"""

WAITING_PER_THREAD = 256


class Work:
    """Runs the work of requests.

    Args:
        threads: how many threads long work has.
        guard: does all work on threads that it watches, if parsers may take only so long.

    Attributes:
        active: requests that are being worked on.
    """

    def __init__(self, threads: int, guard: PluginGuard | None = None) -> None:
        self._guard = guard
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None  # made when it is needed, also after a close: apps may start again
        self._waiting = 0
        self._limit = threads * WAITING_PER_THREAD
        self.active = 0

    @property
    def is_stuck(self) -> bool:
        """Whether parsers hang in so many threads that none is left for work."""
        return self._guard is not None and self._guard.stuck >= MAX_STUCK

    async def run(self, work: Callable[[bytes], T], body: bytes, inline_bytes: int) -> T:
        """Do the work that a body asks for. Its length tells how much that is.

        Args:
            work: from a request's body to its answer.
            body: the body.
            inline_bytes: up to this length it is done on the event loop.

        Raises:
            OverloadedError: too much is waiting already.
            ParserError: a parser took too long.
        """
        with self.counted():
            return await self.step(partial(work, body), len(body), inline_bytes)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """A request is being worked on, in several steps or with pauses between them."""
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1

    async def step(self, work: Callable[[], T], size: int, inline_bytes: int) -> T:
        """Do a part of a request's work that is counted as a whole elsewhere.

        Args:
            work: gives the answer.
            size: bytes of what it works on.
            inline_bytes: up to this size it is done on the event loop.

        Raises:
            OverloadedError: too much is waiting already.
            ParserError: a parser took too long.
        """
        if self._guard is not None:
            answer: T = await self._guard.run(work)
            return answer
        if size <= inline_bytes:
            return work()
        return await self._on_thread(work)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        if self._waiting >= self._limit:
            raise OverloadedError(f"Overloaded: {self._waiting} requests are waiting. Try again later.")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="derender")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let running work end and drop what waits."""
        if self._guard is not None:
            self._guard.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
