"""Noticing that a client has gone away, which ends what is done for it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from litestar.types import Receive

__all__ = ["ClientGoneError", "ClientWatch"]


class ClientGoneError(Exception):
    """The client closed its connection before it had the whole answer."""


class ClientWatch:
    """``async with ClientWatch(receive):`` cancels its body when the client goes away, and raises ``ClientGoneError``.

    It works as ``asyncio.timeout`` does. The request's body must have been read: what is received here is dropped.

    Args:
        receive: the request's.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._watch = asyncio.create_task(self._wait())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.cancel()
        if self._gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientGoneError from error

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()
