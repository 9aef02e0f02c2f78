"""Which engine is asked."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from derender_server.gateway.engine import Engine
from derender_server.gateway.engine_options import Routing
from derender_server.wire.generate import GenerateRequest

__all__ = ["expected_tokens", "in_order"]

EXPECTED_OUTPUT = 1024
"""Tokens that a choice is expected to have at most: most requests leave ``max_tokens`` at whatever fits."""

PREFIX_TOKENS = 256
"""What of a prompt must be equal to be sent to the same engine: about a system prompt."""

SLACK = 2.0
SLACK_TOKENS = 8192
"""An engine keeps its prefix until it has this many times, and this many more, outstanding tokens than the idlest."""


def expected_tokens(request: GenerateRequest) -> int:
    """Tokens that an engine is expected to work through for a request."""
    sampling = request.sampling_params
    return len(request.token_ids) + sampling.n * min(sampling.max_tokens, EXPECTED_OUTPUT)


def in_order(engines: Sequence[Engine], request: GenerateRequest, routing: Routing) -> list[Engine]:
    """The engines in the order in which they are asked.

    Those that are out come last, but do come: where none is well, a request may find out that one is back.
    """
    well = sorted((engine for engine in engines if engine.healthy), key=lambda engine: engine.outstanding)
    if routing == "prefix" and len(well) > 1:
        limit = SLACK * well[0].outstanding + SLACK_TOKENS
        home = max(engines, key=lambda engine: _weight(engine.url, request.token_ids))
        if home.healthy and home.outstanding <= limit:
            well.sort(key=lambda engine: engine is not home)
    return well + [engine for engine in engines if not engine.healthy]


def _weight(url: str, token_ids: Sequence[int]) -> bytes:
    """Rendezvous hashing: when an engine comes or goes, no other changes its prefixes."""
    start = array("q", token_ids[:PREFIX_TOKENS])
    return hashlib.blake2b(start.tobytes(), key=hashlib.sha256(url.encode()).digest(), digest_size=8).digest()
