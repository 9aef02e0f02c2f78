"""Where work runs: short work on the event loop, long work on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from derender_server.errors import OverloadedError

__all__ = ["INLINE_BYTES", "Work"]

T = TypeVar("T")

INLINE_BYTES = 16384
"""Bodies up to this size are answered on the event loop."""

WAITING_PER_THREAD = 256


class Work:
    """Runs the work of requests.

    Args:
        threads: how many threads long work has.

    Attributes:
        active: requests that are being worked on.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="derender")
        self._waiting = 0
        self._limit = threads * WAITING_PER_THREAD
        self.active = 0

    async def run(self, work: Callable[[bytes], T], body: bytes) -> T:
        """Do the work that a body asks for. Its length tells how much that is.

        Raises:
            OverloadedError: too much is waiting already.
        """
        self.active += 1
        try:
            if len(body) <= INLINE_BYTES:
                return work(body)
            return await self._on_thread(work, body)
        finally:
            self.active -= 1

    async def _on_thread(self, work: Callable[[bytes], T], body: bytes) -> T:
        if self._waiting >= self._limit:
            raise OverloadedError(f"Overloaded: {self._waiting} requests are waiting. Try again later.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, body)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let running work end and drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)
