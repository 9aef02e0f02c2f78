"""Ids, counts and arguments as the answers of the Responses and the Messages API show them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from derender_server.chat import CallIds
from derender_server.wire.derender import EngineUsage

__all__ = ["TokenCounts", "part_id", "tool_input"]

LONGEST_INT = 4000  # digits; the interpreter refuses to read many more


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens, for usage.

    Args:
        prompt: of the prompt.
        cached: those of them that the engine had in its cache.
        output: of the output, the stop token included.
        reasoning: those of them that were reasoning.
    """

    prompt: int
    cached: int
    output: int
    reasoning: int

    @classmethod
    def of(
        cls, engine: EngineUsage | None, prompt_tokens: int | None, prompt: int, output: int, reasoning: int
    ) -> TokenCounts:
        """The counts of an answer, where the request's count of the prompt goes before the engine's and ours."""
        told = engine.prompt_tokens if engine is not None else None
        details = (engine.prompt_tokens_details if engine is not None else None) or {}
        cached = details.get("cached_tokens")
        total = next((count for count in (prompt_tokens, told) if count is not None), prompt)
        known = cached if type(cached) is int and 0 <= cached <= total else 0
        return cls(total, known, output, reasoning)


def part_id(prefix: str, ids: CallIds, index: int) -> str:
    """The id of an item, derived like those of calls, so that a retry gives it again."""
    return prefix + ids.digest("part", index)


def tool_input(arguments: str) -> dict[str, Any]:
    """The arguments of a complete call as an object.

    Numbers that JSON writers cannot take stay as they are written, and halves of surrogate pairs become U+FFFD.
    """
    value = json.loads(arguments, parse_int=_integer, parse_float=_float) if arguments else {}
    if "\\u" in arguments:
        value = _whole_characters(value)
    return value if isinstance(value, dict) else {}


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= LONGEST_INT else text


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value
