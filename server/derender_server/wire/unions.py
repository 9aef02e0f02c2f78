"""Unions in requests whose errors speak of the member that was meant, and of no other."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator, Discriminator
from pydantic_core import PydanticCustomError

__all__ = ["TEXT_OR_LIST", "only_types"]


def _form(value: object) -> str | None:
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else None


TEXT_OR_LIST = Discriminator(
    _form, custom_error_type="text_or_list", custom_error_message="It must be a string or a list"
)
"""For a union of a member tagged ``text`` and one tagged ``list``."""


def only_types(what: str, *types: str, default: str | None = None) -> BeforeValidator:
    """Refuse an object whose ``type`` is another, by its name.

    Args:
        what: what such an object is called.
        types: those that can be served.
        default: what an object without a ``type`` is.
    """
    expected = types[0] if len(types) == 1 else f"{', '.join(types[:-1])} and {types[-1]}"

    def check(value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        if kind is None and default is not None:
            return {**value, "type": default} if isinstance(value, dict) else value
        if kind not in types:
            raise PydanticCustomError(
                "unsupported_type",
                "{what} of type {kind} is not supported here, only {expected}; leave it out",
                {"what": what, "kind": repr(kind), "expected": expected},
            )
        return value

    return BeforeValidator(check)
