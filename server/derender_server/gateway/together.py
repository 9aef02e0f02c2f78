"""Doing several things at once, of which one is the usual case."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

__all__ = ["together"]

T = TypeVar("T")


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all. When one fails, the others are cancelled and its exception is raised as it is."""
    if len(works) == 1:
        return [await works[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
