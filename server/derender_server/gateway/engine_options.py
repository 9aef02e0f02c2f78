"""What the gateway was told of its engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["EngineOptions", "Routing"]

Routing = Literal["least", "prefix"]
"""``least``: the engine with the fewest outstanding tokens. ``prefix``: the one that has had the same beginning."""


@dataclass(frozen=True)
class EngineOptions:
    """The engines and how they are asked.

    Args:
        urls: base URLs of the engines that generate.
        prefill_urls: base URLs of engines that run prompts first, for disaggregated prefill.
        api_key: sent to all of them as bearer token.
        routing: how an engine is chosen.
        connect_timeout: seconds in which a connection must stand.
        read_timeout: seconds that an engine may be silent.
        retries: how many more engines are asked when one did not begin.
        health_interval: seconds between health checks.
    """

    urls: tuple[str, ...]
    prefill_urls: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    routing: Routing = "least"
    connect_timeout: float = 5
    read_timeout: float = 600
    retries: int = 2
    health_interval: float = 5
