"""Flags of the command line, made from the fields of models."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Container
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["flags_of"]

Command = TypeVar("Command", bound=Callable[..., Any])


class JsonObject(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A JSON object on the command line."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """The object that the text holds."""
        if isinstance(value, dict):
            return value
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self.fail(f"not JSON: {error}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail("it must be a JSON object", param, ctx)
        return parsed


def flags_of(
    model: type[BaseModel], *, leave_out: Container[str] = (), variable: Callable[[str], str] | None = None
) -> Callable[[Command], Command]:
    """A decorator that adds a flag to a command for every field of a model.

    Args:
        model: its field descriptions are the help.
        leave_out: fields that get no flag.
        variable: from a field's name to its environment variable, if there are any.
    """

    def add(command: Command) -> Command:
        for name, info in reversed(model.model_fields.items()):
            if name not in leave_out:
                told: dict[str, Any] = {} if variable is None else {"envvar": variable(name), "show_envvar": True}
                command = click.option(f"--{name.replace('_', '-')}", name, **_flag(info), **told)(command)
        return command

    return add


def _flag(info: FieldInfo) -> dict[str, Any]:
    kind, default = info.annotation, info.get_default(call_default_factory=True)
    flag: dict[str, Any] = {"help": info.description}
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if kind is bool:
        return flag | {"is_flag": True, "default": default}
    if get_origin(kind) is tuple:
        return flag | {"multiple": True, "default": default}
    if get_origin(kind) is Literal:
        return flag | {"type": click.Choice(get_args(kind)), "default": default, "show_default": True}
    if get_origin(kind) is dict:
        return flag | {"type": JsonObject(), "default": default}
    return flag | {"type": kind, "default": default, "show_default": default not in (None, "")}
