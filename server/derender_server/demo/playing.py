"""A request that the stand-in engine answers: its record, and the pauses in its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Playing", "State"]

State = Literal["running", "finished", "aborted", "disconnected", "failed"]


@dataclass(slots=True, eq=False)
class Playing:
    """A request and what became of it.

    Args:
        request: its body, as it came.
        on_end: called once, when the request has ended.
        state: ``disconnected`` when the client went away, ``failed`` when a fault ended the answer.
        chunks: that were sent.
        tokens: that were sent.
        aborting: it was told to end, in time or when it had ended already.
    """

    request: dict[str, Any]
    on_end: Callable[[Playing], None] = field(repr=False)
    state: State = "running"
    chunks: int = 0
    tokens: int = 0
    aborting: bool = False
    _pause: asyncio.Future[None] | None = field(default=None, repr=False)

    @property
    def request_id(self) -> str | None:
        """As the request gives it."""
        given = self.request.get("request_id")
        return given if isinstance(given, str) else None

    def abort(self) -> None:
        """End the answer early."""
        self.aborting = True
        if self._pause is not None:
            _wake(self._pause)

    def end(self, state: State) -> None:
        """The answer is over. The first to say so is right."""
        if self.state == "running":
            self.state = state
            self.on_end(self)

    async def wait(self, until: float | None) -> bool:
        """Pause; other tasks run in any case.

        Args:
            until: time of the event loop's clock, in seconds; None is for ever.

        Returns:
            Whether to go on: nobody aborted the request.
        """
        loop = asyncio.get_running_loop()
        if self.aborting:
            return False
        if until is not None and until <= loop.time():
            await asyncio.sleep(0)
            return not self.aborting
        pause = self._pause = loop.create_future()
        timer = None if until is None else loop.call_at(until, _wake, pause)
        try:
            await pause
        finally:
            self._pause = None
            if timer is not None:
                timer.cancel()
        return not self.aborting

    def record(self) -> dict[str, Any]:
        """What tests see of it, JSON-plain."""
        return {
            "request_id": self.request_id,
            "state": self.state,
            "abort_requested": self.aborting,
            "chunks": self.chunks,
            "tokens": self.tokens,
            "request": self.request,
        }


def _wake(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
