"""Structural tags of formats with JSON lists and their like: what an engine is held to, the parser reads as a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from derender_core import Delta, ParseContext, Pipeline, Tool, ToolCall, fold_message, load_parser

SCHEMA = {"type": "object", "properties": {"note": {"type": "string"}}}
TOOLS = (Tool("ring", SCHEMA, strict=True), Tool("plan_route", SCHEMA))
ARGUMENTS = '{"note": "a}]"}'
NAMES = (
    "apertus",
    "deepseek_v31",
    "ernie45",
    "gigachat3",
    "granite",
    "granite-20b-fc",
    "hunyuan_a13b",
    "internlm",
    "jamba",
    "longcat",
    "nemotron_json",
)


def tag(name: str, choice: str) -> Mapping[str, Any]:
    node = load_parser("tool", name).structural_tag(TOOLS, choice)
    assert node is not None
    return json.loads(json.dumps(node))


def write(node: Mapping[str, Any]) -> str:
    """An output that a node allows, with all of its tags where it allows several."""
    if node["type"] == "json_schema":
        return ARGUMENTS
    if node["type"] == "tag":
        return node["begin"] + write(node["content"]) + node["end"]
    assert node["type"] in ("tags_with_separator", "triggered_tags"), "no such node"
    if node["type"] == "triggered_tags":
        starts = tuple(node["triggers"])
        assert all(tag["begin"].startswith(starts) for tag in node["tags"])
    separator = node.get("separator", "")
    return separator.join(write(tag) for tag in node["tags"])


def calls_of(name: str, output: str) -> tuple[ToolCall, ...]:
    context = ParseContext(tools=TOOLS)
    message = fold_message(Pipeline(load_parser("tool", name)).extract(Delta(output, finish_reason="stop"), context))
    assert message.content is None
    return message.tool_calls


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_are_read_as_they_are_constrained(name: str, choice: str) -> None:
    calls = calls_of(name, write(tag(name, choice)))
    assert {(call.name, call.arguments) for call in calls} == {("ring", ARGUMENTS), ("plan_route", ARGUMENTS)}


@pytest.mark.parametrize("name", NAMES)
def test_a_named_function_is_called_once(name: str) -> None:
    node = tag(name, "function:plan_route")
    assert '"stop_after_first": true' in json.dumps(node)
    calls = calls_of(name, write(node))
    assert {(call.name, call.arguments) for call in calls} == {("plan_route", ARGUMENTS)}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_constrain(name: str) -> None:
    parser = load_parser("tool", name)
    assert parser.structural_tag(TOOLS, "none") is None
    assert parser.structural_tag(TOOLS[1:], "auto") is None
