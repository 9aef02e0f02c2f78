"""``--plugin-timeout``: a parser that hangs costs its own request, and not the server.

With a timeout, work that may call parsers runs on threads of its own, and the event loop watches how long each call of
a parser takes. When one takes too long, its request is answered at once. A thread cannot be killed, so this is what
happens to it:

- An exception is raised in it as soon as it executes Python code again. That ends loops, and the thread.
- One that waits in a system call or in native code ends when that returns. Until then it is *stuck*, and another thread
  takes its place.
- At most ``MAX_STUCK`` threads may be stuck. Then requests are refused with 503, until one returns or the process is
  restarted. Threads never keep the process from ending.

What holds the interpreter lock without end, such as a regular expression that backtracks for ever, stops the event loop
as well, and only another process can notice: with ``--workers`` of 2 or more, the supervisor replaces a process that no
longer answers.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from derender_core.errors import ParserError
from derender_core.registry import Parser
from derender_server.errors import OverloadedError

__all__ = ["MAX_STUCK", "PluginGuard"]

log = logging.getLogger("derender")

MAX_STUCK = 8
"""Threads of one process that may be stuck in parsers."""

WAITING_PER_THREAD = 256


class PluginInterrupt(BaseException):
    """Raised in a thread whose request was answered without it. Not an ``Exception``, so that plugins let it pass."""


@dataclass(eq=False, slots=True)
class Job:
    """One request's work.

    Args:
        work: what to do.
        loop: where the answer is waited for.
        answer: the answer.
        thread: who does it, once somebody does.
        calls: the parsers that are being called, outermost first, each with the time at which its call began.
        state: ``"waiting"``, ``"running"``, ``"done"``, or ``"abandoned"`` for one that nobody waits for any more;
            changed under the guard's lock.
    """

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    thread: threading.Thread | None = None
    calls: list[tuple[Parser, float]] = field(default_factory=list)
    state: str = "waiting"

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Give the answer to the event loop, unless that has ended."""

        def give() -> None:
            if self.answer.cancelled():
                return
            if error is None:
                self.answer.set_result(result)
            else:
                self.answer.set_exception(error)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(give)


class PluginGuard:
    """Runs work that calls parsers, and gives up on calls that take too long.

    Args:
        parsers: the parsers to watch.
        seconds: how long one call of one of them may take.
        threads: how many requests are worked on at a time.
    """

    def __init__(self, parsers: Sequence[Parser], seconds: float, threads: int) -> None:
        self._seconds = seconds
        self._size = threads
        self._limit = threads * WAITING_PER_THREAD
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._watching: set[asyncio.Task[Any]] = set()
        self._running: dict[int, Job] = {}
        self._workers: list[threading.Thread] = []
        self._abandoned: list[threading.Thread] = []
        self._unwatch = [self._watch(parser) for parser in parsers]

    @property
    def stuck(self) -> int:
        """Threads that are still in a call which was given up on."""
        with self._lock:
            self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
            return len(self._abandoned)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Do work on a thread.

        Raises:
            ParserError: a parser took too long; names it.
            OverloadedError: too much is waiting, or too many threads are stuck.
        """
        self._refill()
        if not self._workers:
            raise self._all_stuck()
        if len(self._watching) >= self._limit:
            raise OverloadedError(f"Overloaded: {len(self._watching)} requests are waiting. Try again later.")
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        self._jobs.put(job)
        watching = loop.create_task(self._wait(job))
        self._watching.add(watching)
        watching.add_done_callback(self._watched)
        # A client that goes away ends its request; the thread is still to be watched.
        return await asyncio.shield(watching)

    def close(self) -> None:
        """End the threads that wait for work, and stop watching."""
        for _ in self._workers:
            self._jobs.put(None)
        for unwatch in self._unwatch:
            unwatch()

    def _watched(self, watching: asyncio.Task[Any]) -> None:
        self._watching.discard(watching)
        if not watching.cancelled():
            watching.exception()  # seen, also when nobody waits for it any more

    async def _wait(self, job: Job) -> Any:
        left = self._seconds
        while True:
            done, _ = await asyncio.wait([job.answer], timeout=left)
            if done:
                return job.answer.result()
            call = next(iter(job.calls), None)
            left = self._seconds if call is None else call[1] + self._seconds - time.monotonic()
            if call is not None and left <= 0:
                if self._abandon(job):
                    raise self._took_too_long(call[0])
                left = self._seconds  # it ended just now, and the answer is on its way
            elif not self._workers and self._drop(job):
                raise self._all_stuck()

    def _took_too_long(self, parser: Parser) -> ParserError:
        parser.count_failure("timeout")
        self._refill()
        log.error("%s took longer than %g s; %d threads are stuck", parser, self._seconds, self.stuck)
        return ParserError(f"{parser} took longer than the {self._seconds:g} s of --plugin-timeout")

    def _all_stuck(self) -> OverloadedError:
        return OverloadedError(f"{self.stuck} threads are stuck in parsers. This process should be restarted.")

    def _abandon(self, job: Job) -> bool:
        """Give up on a job that is running; whether it still was."""
        with self._lock:
            if job.state != "running" or job.thread is None:
                return False
            job.state = "abandoned"
            self._workers.remove(job.thread)
            self._abandoned.append(job.thread)
            # Under the lock, without which the thread cannot go on to another job: it ends this one and no other.
            ident = ctypes.c_ulong(job.thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(PluginInterrupt))
        return True

    def _drop(self, job: Job) -> bool:
        """Give up on a job that nobody has begun; whether that is so."""
        with self._lock:
            if job.state != "waiting":
                return False
            job.state = "abandoned"
        return True

    def _refill(self) -> None:
        """Replace the threads that were given up on, as long as not too many are stuck."""
        stuck = self.stuck
        while len(self._workers) < self._size and stuck < MAX_STUCK:
            thread = threading.Thread(target=self._serve, name="derender-parser", daemon=True)
            self._workers.append(thread)
            thread.start()

    def _serve(self) -> None:
        """What a thread does, until it is given up on."""
        try:
            while (job := self._jobs.get()) is not None:
                if not self._do(job):
                    return
        except PluginInterrupt:
            return
        finally:
            self._running.pop(threading.get_ident(), None)

    def _do(self, job: Job) -> bool:
        """Do a job; whether the thread may go on."""
        with self._lock:
            if job.state != "waiting":
                return True
            job.thread, job.state = threading.current_thread(), "running"
        self._running[threading.get_ident()] = job
        result, error = None, None
        try:
            result = job.work()
        except BaseException as raised:
            error = raised
        with self._lock:
            if job.state == "abandoned":
                return False
            job.state = "done"
        job.settle(result, error)
        return True

    def _watch(self, parser: Parser) -> Callable[[], None]:
        def before() -> None:
            job = self._running.get(threading.get_ident())
            if job is not None:
                job.calls.append((parser, time.monotonic()))

        def after() -> None:
            job = self._running.get(threading.get_ident())
            if job is not None and job.calls:
                job.calls.pop()

        return parser.watch(before, after)
