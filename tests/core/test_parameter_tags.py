"""The nodes of structural tags for formats that write each argument by itself."""

from __future__ import annotations

from typing import Any

import pytest

from derender_core import Parameter, Tool, parameters_node, python_call_tags, tag_node

PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "n": {"type": "integer"},
    "side": {"enum": ["port", "starboard"]},
    "on": {"type": "boolean"},
    "either": {"type": ["string", "null"]},
    "level": {"$ref": "#/$defs/level"},
}
DEFINITIONS = {"level": {"type": "integer", "minimum": 0}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "$defs": DEFINITIONS}
STRICT = {**SCHEMA, "required": list(PROPERTIES)}
ANY_TEXT = {"type": "any_text"}


def write(parameter: Parameter) -> dict[str, Any]:
    return tag_node(f"<{parameter.name}>", parameter.bare, "</>")


def contents(node: dict[str, Any]) -> dict[str, Any]:
    """What stands for each argument."""
    tags = node["elements"] if node["type"] == "sequence" else node["tags"]
    return {tag["begin"].strip("<>"): tag["content"] for tag in tags if tag["type"] == "tag"}


def test_loose_tools_have_any_arguments_that_the_schema_names() -> None:
    node = parameters_node(Tool("f", SCHEMA), write, separator=",")
    assert {**node, "tags": None} == {
        "type": "tags_with_separator",
        "tags": None,
        "separator": ",",
        "at_least_one": False,
        "stop_after_first": False,
    }
    free = {"type": "json_schema", "json_schema": True}
    assert contents(node) == {
        "text": ANY_TEXT,
        "n": free,
        "side": ANY_TEXT,
        "on": free,
        "either": ANY_TEXT,
        "level": free,
    }


def test_values_of_strict_tools_are_held_to_their_schemas() -> None:
    node = parameters_node(Tool("f", STRICT, strict=True), write)
    choices = [{"type": "const_string", "value": value} for value in ("port", "starboard")]
    definitions = {"$defs": DEFINITIONS}
    assert node["type"] == "sequence"
    assert contents(node) == {
        "text": ANY_TEXT,
        "n": {"type": "json_schema", "json_schema": {**definitions, "type": "integer"}},
        "side": {"type": "or", "elements": choices},
        "on": {"type": "json_schema", "json_schema": {**definitions, "type": "boolean"}},
        "either": ANY_TEXT,
        "level": {"type": "json_schema", "json_schema": {**definitions, "$ref": "#/$defs/level"}},
    }


def test_strict_arguments_that_are_all_required_stand_in_their_order_with_the_separator_between() -> None:
    tool = Tool("f", {"properties": {"b": {}, "a": {}}, "required": ["a", "b"]}, strict=True)
    first, between, second = parameters_node(tool, write, separator=", ")["elements"]
    assert (first["begin"], between, second["begin"]) == ("<b>", {"type": "const_string", "value": ", "}, "<a>")


@pytest.mark.parametrize("required", [None, ["a"], "ab", []])
def test_strict_arguments_of_which_some_are_optional_are_free_in_number(required: object) -> None:
    tool = Tool("f", {"properties": {"b": {}, "a": {}}, "required": required}, strict=True)
    assert parameters_node(tool, write)["type"] == "tags_with_separator"


@pytest.mark.parametrize("parameters", [None, {}, {"properties": {}}, {"properties": 1}])
def test_without_parameters_nothing_is_written(parameters: dict[str, Any] | None) -> None:
    assert parameters_node(Tool("f", parameters), write) == {"type": "const_string", "value": ""}


def test_python_booleans_are_words_and_all_else_is_json() -> None:
    (call,) = python_call_tags((Tool("a.f", SCHEMA),), "required")
    assert (call["begin"], call["end"]) == ("a.f(", ")")
    by_name = {tag["begin"]: tag["content"] for tag in call["content"]["tags"]}
    assert by_name["on="] == {
        "type": "or",
        "elements": [{"type": "const_string", "value": "True"}, {"type": "const_string", "value": "False"}],
    }
    assert by_name["text="] == by_name["side="] == {"type": "json_schema", "json_schema": True}
    assert call["content"]["separator"] == ", "


@pytest.mark.parametrize(
    "tool", [Tool("a-f"), Tool("1f"), Tool("f", {"properties": {"a b": {}}}), Tool("f", {"properties": {"": {}}})]
)
def test_python_has_no_calls_with_other_names(tool: Tool) -> None:
    assert python_call_tags((Tool("g"), tool), "required") == []
    assert len(python_call_tags((Tool("g"), tool), "function:g")) == 1
