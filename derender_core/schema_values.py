"""Arguments that are written as bare text, typed by the tool's JSON Schema.

Formats with a tag for each parameter have no types of their own, so the schema decides: text for a string parameter
stays what it is, character by character; text for anything else becomes the JSON value that it spells. Nothing is lost
on the way: integers of any size, ``1.0``, white space and escapes stay as the model wrote them. What fits no type of
the schema stays a string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from derender_core.json_text import dump_json, is_json, normalize_json
from derender_core.python_values import python_json

__all__ = ["ANY", "UNKNOWN", "is_text", "item_schema", "parameter_schema", "schema_types", "typed_value"]

Types = frozenset[str]

UNKNOWN: Final[Types] = frozenset()
"""Nothing is known of the parameter: its text is a string."""

ANY: Final[Types] = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
"""A schema that allows everything: its text is JSON if it spells JSON, else a string."""

MAX_SCHEMAS: Final = 100
"""Schemas looked at for one parameter; what lies behind allows everything. It bounds the depth, too."""

MAX_HOPS: Final = 32
"""References that lead to references."""

_STRING: Final[Types] = frozenset({"string"})
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NULLS = frozenset({"null", "None"})
_BOOLEANS = {"true": "true", "True": "true", "false": "false", "False": "false"}
_BLANK = " \t\r\n"
_UNIONS = ("allOf", "anyOf", "oneOf")


def parameter_schema(parameters: object, key: str, root: object = None) -> object:
    """The schema of one parameter, or None when the tool says nothing about it.

    Args:
        parameters: the schema of the object that has it.
        key: its name.
        root: the schema that local references point into; ``parameters`` when left out.
    """
    return _property(parameters, key, parameters if root is None else root, set())


def item_schema(schema: object, root: object) -> object:
    """The schema of a list's items, or None when the list's schema says nothing about them."""
    return _items(schema, root, set())


def _items(schema: object, root: object, seen: set[int]) -> object:
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > MAX_SCHEMAS:
        return None
    seen.add(id(schema))
    if isinstance(schema.get("items"), (Mapping, bool)):
        return schema["items"]
    branches = (branch for union in _UNIONS for branch in _branches(schema, union))
    return next((found for branch in branches if (found := _items(branch, root, seen)) is not None), None)


def _property(schema: object, key: str, root: object, seen: set[int]) -> object:
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > MAX_SCHEMAS:
        return None
    seen.add(id(schema))
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    for union in _UNIONS:
        for branch in _branches(schema, union):
            found = _property(branch, key, root, seen)
            if found is not None:
                return found
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else None


def schema_types(schema: object, root: object = None) -> Types:
    """The JSON types that a schema allows.

    Args:
        schema: a JSON Schema; None is ``UNKNOWN``.
        root: the schema that local references (``#/...``) point into.
    """
    return UNKNOWN if schema is None else _types(schema, root, {})


def _types(schema: object, root: object, known: dict[int, Types]) -> Types:
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping) or len(known) > MAX_SCHEMAS:
        return ANY
    if id(schema) not in known:
        known[id(schema)] = UNKNOWN  # a schema that refers to itself adds nothing to its own types
        known[id(schema)] = _own_types(schema, root, known)
    return known[id(schema)]


def _own_types(schema: Mapping[str, Any], root: object, known: dict[int, Types]) -> Types:
    types = ANY
    declared = schema.get("type")
    if isinstance(declared, str):
        types &= {declared}
    elif isinstance(declared, list):
        types &= {name for name in declared if isinstance(name, str)}
    if "const" in schema:
        types &= _types_of([schema["const"]])
    if isinstance(schema.get("enum"), list):
        types &= _types_of(schema["enum"])
    for union in ("anyOf", "oneOf"):
        branches = frozenset().union(*(_types(branch, root, known) for branch in _branches(schema, union)))
        types &= branches or ANY
    for branch in _branches(schema, "allOf"):
        types &= _types(branch, root, known) or ANY
    if declared is None and types == ANY:
        types = frozenset({"object"}) if "properties" in schema else types
        types = frozenset({"array"}) if "items" in schema and "properties" not in schema else types
    if "number" in types:
        types |= {"integer"}
    if schema.get("nullable") is True:
        types |= {"null"}
    return types or ANY


def is_text(types: Types) -> bool:
    """Whether a value of these types is a string, whatever its text."""
    return types in (UNKNOWN, _STRING)


def _branches(schema: Mapping[str, Any], union: str) -> list[object]:
    branches = schema.get(union)
    return branches if isinstance(branches, list) else []


def _types_of(values: Iterable[object]) -> Types:
    return frozenset(_type_of(value) for value in values)


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, (list, tuple)) else "object"


def _resolve(schema: object, root: object) -> object:
    """Follow local references."""
    for _ in range(MAX_HOPS):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        reference = schema["$ref"]
        if not reference.startswith("#"):
            return {}
        schema = root
        for part in reference[1:].split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, Mapping) else None
    return {}


def typed_value(text: str, types: Types) -> str:
    """The JSON text of the value that ``text`` spells.

    Args:
        text: what the model wrote for the parameter.
        types: what its schema allows.
    """
    if is_text(types):
        return dump_json(text)
    bare = text.strip(_BLANK)
    if types == ANY:
        return _json(bare) or dump_json(text)
    if "null" in types and bare in _NULLS:
        return "null"
    if "boolean" in types and bare in _BOOLEANS:
        return _BOOLEANS[bare]
    number = _typed_number(bare, types)
    if number is not None:
        return number
    wanted = tuple(bracket for bracket, kind in (("{", "object"), ("[", "array")) if kind in types)
    if bare.startswith((*wanted, "(") if "array" in types else wanted):
        container = _json(bare) or python_json(bare)
        if container is not None and container.startswith(wanted):
            return container
    return dump_json(text)


def _typed_number(text: str, types: Types) -> str | None:
    if "integer" in types and _INTEGER.fullmatch(text):
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        number = sign + (digits.lstrip("0") or "0")
        return None if "string" in types and number != text else number  # "0815" is no number where it may be text
    if not _NUMBER.fullmatch(text):
        return None
    if "number" in types:
        return text
    whole, point, fraction = text.partition(".")
    return text if "integer" in types and point and not fraction.strip("0") and whole else None


def _json(text: str) -> str | None:
    """The text as strict JSON, when it is JSON."""
    return normalize_json(text) if is_json(text) else None
