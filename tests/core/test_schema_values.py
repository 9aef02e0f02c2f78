"""Bare text typed by a JSON Schema: what it becomes, and that nothing of it is lost."""

import json
from typing import Any

import pytest

from derender_core import parameter_schema, schema_types, typed_value
from derender_core.schema_values import ANY, UNKNOWN, is_text

ROOT = {
    "$defs": {
        "level": {"enum": [1, 2]},
        "size": {"$ref": "#/$defs/level"},
        "a/b": {"type": "boolean"},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "integer"}]},
        "circle": {"$ref": "#/$defs/circle"},
    }
}


def typed(text: str, schema: Any) -> str:
    return typed_value(text, schema_types(schema, ROOT))


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "string"}, "0815", '"0815"'),
        ({"type": "string"}, "null", '"null"'),
        ({"type": "string"}, "[1,2]", '"[1,2]"'),
        ({"type": "string"}, ' "x" \n', '" \\"x\\" \\n"'),
        ({"type": "string"}, "a\\nb\tc\x01é😀", '"a\\\\nb\\tc\\u0001é😀"'),
        (None, "5", '"5"'),
        ({"type": "integer"}, "5", "5"),
        ({"type": "integer"}, " -5\n", "-5"),
        ({"type": "integer"}, "123456789012345678901234567890", "123456789012345678901234567890"),
        ({"type": "integer"}, "9" * 6000, "9" * 6000),
        ({"type": "integer"}, "007", "7"),
        ({"type": "integer"}, "-0", "-0"),
        ({"type": "integer"}, "3.0", "3.0"),
        ({"type": "integer"}, "3.5", '"3.5"'),
        ({"type": "integer"}, "1e20", '"1e20"'),
        ({"type": "integer"}, "1_000", '"1_000"'),
        ({"type": "integer"}, "+5", '"+5"'),
        ({"type": "integer"}, "٣", '"٣"'),
        ({"type": "number"}, "0.50", "0.50"),
        ({"type": "number"}, "1e400", "1e400"),
        ({"type": "number"}, "7", "7"),
        ({"type": "number"}, "NaN", '"NaN"'),
        ({"type": "number"}, "-Infinity", '"-Infinity"'),
        ({"type": "number"}, ".5", '".5"'),
        ({"type": "number"}, "", '""'),
        ({"type": "boolean"}, "True", "true"),
        ({"type": "boolean"}, "false", "false"),
        ({"type": "boolean"}, "yes", '"yes"'),
        ({"type": "boolean"}, "1", '"1"'),
        ({"type": "null"}, "None", "null"),
        ({"type": "array"}, "[1, 1.0, \"é\"]", "[1, 1.0, \"é\"]"),
        ({"type": "array"}, "('a', [True])", '["a", [true]]'),
        ({"type": "array"}, "{}", '"{}"'),
        ({"type": "array"}, "(1)", '"(1)"'),
        ({"type": "array"}, "[1,", '"[1,"'),
        ({"type": "object"}, "{'a': None}", '{"a": null}'),
        ({"type": "object"}, '{"a": 1, "a": 2}', '{"a": 2}'),
        ({"type": "object"}, "{'a': __import__('os')}", "\"{'a': __import__('os')}\""),
        ({"type": "object"}, "[" * 5000, json.dumps("[" * 5000)),
        ({"type": ["integer", "null"]}, "null", "null"),
        ({"type": ["integer", "string"]}, "12", "12"),
        ({"type": ["integer", "string"]}, "0815", '"0815"'),
        ({"type": ["integer", "string"]}, "x", '"x"'),
        ({"type": "string", "nullable": True}, "null", "null"),
        ({"type": "string", "nullable": True}, "5", '"5"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", "null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "nul", '"nul"'),
        ({"oneOf": [{"type": "boolean"}, {"type": "array"}]}, "[true]", "[true]"),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]}, "5", '"5"'),
        ({"enum": ["1", "2"]}, "1", '"1"'),
        ({"enum": [1, 2]}, "1", "1"),
        ({"enum": [None, "x"]}, "None", "null"),
        ({"const": 3}, "3", "3"),
        ({"const": True}, "True", "true"),
        ({"$ref": "#/$defs/size"}, "2", "2"),
        ({"$ref": "#/$defs/a~1b"}, "true", "true"),
        ({"$ref": "#/$defs/loop"}, "2", "2"),
        ({"$ref": "#/$defs/circle"}, "[2]", "[2]"),
        ({"$ref": "#/$defs/missing"}, "2", "2"),
        ({"$ref": "other.json#/x"}, "2", "2"),
        ({"properties": {"a": {}}}, "{'a': 1}", '{"a": 1}'),
        ({"items": {}}, "[1]", "[1]"),
        ({}, "3", "3"),
        ({}, " {\"a\": 1.0} ", '{"a": 1.0}'),
        ({}, "True", '"True"'),
        ({}, " plain ", '" plain "'),
        (True, "3", "3"),
        ({"type": 7}, "3", "3"),
        ({"type": "string", "enum": [1]}, "3", "3"),
        ({"anyOf": "no list"}, "x", '"x"'),
    ],
)  # fmt: skip
def test_value(schema: Any, text: str, expected: str) -> None:
    assert typed(text, schema) == expected


@pytest.mark.parametrize("schema", [{"type": "string"}, None, {"enum": ["a"]}, {"allOf": [{"type": "string"}]}])
def test_text_is_known_before_its_value(schema: Any) -> None:
    assert is_text(schema_types(schema, ROOT))


def test_other_types_are_no_text() -> None:
    assert not is_text(schema_types({"type": ["string", "null"]}))
    assert schema_types({}) == ANY
    assert schema_types(None) == UNKNOWN


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (None, None),
        ({}, None),
        ({"properties": {"a": {"type": "integer"}}}, {"type": "integer"}),
        ({"properties": {"b": {}}, "additionalProperties": {"type": "number"}}, {"type": "number"}),
        ({"properties": {"b": {}}, "additionalProperties": True}, None),
        ({"anyOf": [{"properties": {"b": {}}}, {"properties": {"a": {"type": "null"}}}]}, {"type": "null"}),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"properties": {"a": {"type": "array"}}}}}, {"type": "array"}),
        ({"properties": ["a"]}, None),
        ({"$ref": "#"}, None),
        ({"allOf": [{"$ref": "#"}]}, None),
    ],
)
def test_schema_of_a_parameter(parameters: Any, expected: object) -> None:
    assert parameter_schema(parameters, "a") == expected


def test_schemas_that_multiply_are_looked_at_once() -> None:
    """Each level refers to the next one twice: 2 ** 60 ways down."""
    defs: dict[str, Any] = {str(at): {"anyOf": [{"$ref": f"#/$defs/{at + 1}"}] * 2} for at in range(60)}
    defs["60"] = {"type": "integer", "properties": {"b": {}}}
    root = {"$defs": defs, "$ref": "#/$defs/0"}
    assert parameter_schema(root, "a") is None
    assert typed_value("1", schema_types({"$ref": "#/$defs/0"}, root)) == "1"


def test_a_schema_may_be_deep() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        schema = {"anyOf": [schema]}
    assert typed_value("1", schema_types(schema)) == "1"
    assert parameter_schema(schema, "a") is None
