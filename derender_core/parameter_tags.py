"""Structural tags for formats that write each argument by itself, in a way that no grammar backend knows by name.

Each argument is a tag of its own. A strict tool that requires all its parameters has them in their order, once each;
any other has those that the model likes. Values of strict tools are held to their schemas, except that what is written
as bare text is held to an ``enum`` alone: nothing else can be said of text that has no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from derender_core.inputs import Tool, ToolChoice
from derender_core.schema_values import is_text, parameter_schema, schema_types
from derender_core.structural_tag import offered_tools, tag_node

__all__ = ["Parameter", "parameters_node", "python_call_tags"]

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


class Parameter(NamedTuple):
    """A parameter of a tool, as a structural tag needs it.

    Args:
        name: its name.
        types: the JSON types that its schema allows.
        json: the node for its value, written as JSON.
        text: the node for its value, written as bare text.
    """

    name: str
    types: frozenset[str]
    json: dict[str, Any]
    text: dict[str, Any]

    @property
    def bare(self) -> dict[str, Any]:
        """The node for its value where a string is bare text and everything else JSON."""
        return self.text if is_text(self.types) or "string" in self.types else self.json


def parameter_names(tool: Tool) -> list[str]:
    """The parameters that the tool's schema names, in its order."""
    properties = (tool.parameters or {}).get("properties")
    return list(properties) if isinstance(properties, Mapping) else []


def parameters_node(tool: Tool, write: Callable[[Parameter], dict[str, Any]], *, separator: str = "") -> dict[str, Any]:
    """The node for the arguments of a call.

    Args:
        tool: the tool; only the parameters that its schema names can be written.
        write: the ``tag`` node of one argument.
        separator: what stands between two arguments.
    """
    names = parameter_names(tool)
    if not names:
        return _text("")
    schema = tool.parameters or {}
    tags = [write(_parameter(tool, schema, name)) for name in names]
    required = schema.get("required")
    if tool.strict and isinstance(required, list) and all(name in required for name in names):
        between = [_text(separator)] if separator else []
        elements = [node for tag in tags for node in (*between, tag)]
        return {"type": "sequence", "elements": elements[len(between) :]}
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": False,
        "stop_after_first": False,
    }


def _parameter(tool: Tool, root: Mapping[str, Any], name: str) -> Parameter:
    schema = parameter_schema(root, name)
    types = schema_types(schema, root)
    held: Mapping[str, Any] | bool = True
    text: dict[str, Any] = {"type": "any_text"}
    if tool.strict and isinstance(schema, Mapping):
        # References point into the whole schema, so its definitions go along.
        held = {**{key: root[key] for key in ("$defs", "definitions") if key in root}, **schema}
        choices = schema.get("enum")
        if isinstance(choices, list) and choices and all(isinstance(choice, str) for choice in choices):
            text = {"type": "or", "elements": [_text(choice) for choice in choices]}
    return Parameter(name, types, {"type": "json_schema", "json_schema": held}, text)


def python_call_tags(tools: Sequence[Tool], tool_choice: ToolChoice) -> list[dict[str, Any]]:
    """The tags of calls in Python, with keyword arguments. Their values are JSON, which readers take, except booleans.

    Args:
        tools: the tools of the request.
        tool_choice: as in ``offered_tools``.

    Returns:
        None of them when a name, of a function or a parameter, is no Python name: such a call cannot be written.
    """
    offered = offered_tools(tools, tool_choice)
    if not all(_NAME.fullmatch(tool.name) and all(map(_NAME.fullmatch, parameter_names(tool))) for tool in offered):
        return []
    return [tag_node(f"{tool.name}(", parameters_node(tool, _keyword, separator=", "), ")") for tool in offered]


def _keyword(parameter: Parameter) -> dict[str, Any]:
    literals: dict[str, Any] = {"type": "or", "elements": [_text("True"), _text("False")]}
    return tag_node(f"{parameter.name}=", literals if parameter.types == {"boolean"} else parameter.json, "")


def _text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}
