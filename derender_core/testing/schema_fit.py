"""Whether the arguments of calls fit the JSON Schemas of the functions that were offered."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from derender_core.message import ToolCall
from derender_core.testing.cases import Case

__all__ = ["SCHEMA_EXTRA", "can_check_schemas", "misfits", "schema_faults"]

SCHEMA_EXTRA = "derender[testing]"
"""What to install so that schemas can be checked: the server itself needs no validator."""


@cache
def can_check_schemas() -> bool:
    """Whether the validator is installed."""
    return importlib.util.find_spec("jsonschema") is not None


def misfits(case: Case, calls: Iterable[ToolCall]) -> list[str]:
    """Which arguments do not fit, one line each. Arguments that are no JSON are somebody else's business."""
    schemas = {tool.name: tool.parameters for tool in case.tools}
    found = []
    for at, call in enumerate(calls):
        schema = schemas.get(call.name)
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            continue
        if schema is not None:
            found += [f"tool_calls.{at}.arguments{fault}" for fault in _faults(schema, arguments)]
    return found


def schema_faults(case: Case) -> list[str]:
    """What is wrong with the schemas of a case's own tools."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    found = []
    for at, tool in enumerate(case.tools):
        if tool.parameters is None:
            continue
        try:
            validator_for(tool.parameters).check_schema(tool.parameters)
        except SchemaError as error:
            found.append(f"tools.{at}.parameters: no JSON Schema: {error.message}")
    return found


def _faults(schema: dict[str, Any], arguments: Any) -> list[str]:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        # An empty registry: a schema from a corpus must not make anybody fetch something.
        errors = sorted(kind(schema, registry=Registry()).iter_errors(arguments), key=lambda error: list(error.path))
    except (SchemaError, Unresolvable) as error:
        return [f": the tool's schema cannot be used: {error}"]
    return ["".join(f".{part}" for part in error.path) + f": {error.message}" for error in errors]
