"""What the gateway needs of engines; ``Engines`` gives it."""

from __future__ import annotations

from typing import Any, Protocol, Self

from derender_server.wire.generate import GenerateRequest

__all__ = ["EngineChunks", "EngineSource"]


class EngineChunks(Protocol):
    """An engine's stream: the JSON of each event."""

    def __aiter__(self) -> Self:
        """Itself."""

    async def __anext__(self) -> bytes:
        """The next chunk.

        Raises:
            EngineError: the engine dropped, was silent for too long, or sent something else.
        """

    async def aclose(self) -> None:
        """End the request at the engine, if it is still running. Does not wait for that."""


class EngineSource(Protocol):
    """Where answers come from."""

    async def start(self) -> None:
        """Get ready, on the loop that will serve."""

    async def close(self) -> None:
        """End what is left."""

    def report(self) -> list[dict[str, Any]]:
        """For ``/load``: each engine, and how busy it is."""
        return []

    async def generate(self, request: GenerateRequest) -> bytes:
        """The JSON of a whole response. Being cancelled ends the request at the engine.

        Raises:
            EngineError: there is none; says why.
        """

    async def stream(self, request: GenerateRequest) -> EngineChunks:
        """A stream, once an engine has begun it.

        Raises:
            EngineError: there is none; says why.
        """
