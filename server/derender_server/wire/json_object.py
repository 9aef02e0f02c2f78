"""Free-form JSON in requests, bounded in depth so that it can be written out again."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

__all__ = ["MAX_DEPTH", "JsonObject", "check_depth"]

T = TypeVar("T")
MAX_DEPTH = 128
"""Levels of objects and lists. Far more than a schema needs, and half of what JSON writers can do."""


def check_depth(value: T) -> T:
    """The value, unless it is nested too deeply.

    Raises:
        ValueError: more than ``MAX_DEPTH`` levels.
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


JsonObject = Annotated[dict[str, Any], AfterValidator(check_depth)]
"""Any JSON object."""
