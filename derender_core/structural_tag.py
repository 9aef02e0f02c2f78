"""Structural tags: telling an engine with a grammar backend (such as xgrammar) which tool calls are legal.

A parser's ``derender_structural_tag`` returns the ``format`` node of a structural tag. The nodes are those of the
structural-tag documentation of xgrammar: ``tag``, ``json_schema``, ``tags_with_separator`` and ``triggered_tags``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.inputs import Tool, ToolChoice

__all__ = [
    "call_list",
    "call_objects",
    "call_section",
    "call_tag",
    "call_tags",
    "numbered_tag",
    "offered_tools",
    "tag_node",
]


def tag_node(begin: str, content: Mapping[str, Any], end: str) -> dict[str, Any]:
    """The node for something between two texts, either of which may be empty."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def call_tag(begin: str, tool: Tool, end: str, *, style: str = "json") -> dict[str, Any]:
    """One way to write a call of ``tool``: ``begin``, its arguments, ``end``.

    The arguments are held to the tool's schema only when the tool is strict; otherwise any JSON may stand there.

    Args:
        begin: what stands in front of the arguments.
        tool: the tool.
        end: what stands behind them.
        style: how they are written: ``"json"``, or one of the grammar backend's names for a layout with tags.
    """
    schema: Mapping[str, Any] | bool = tool.parameters if tool.strict and tool.parameters is not None else True
    content = {"type": "json_schema", "json_schema": schema}
    return tag_node(begin, content if style == "json" else {**content, "style": style}, end)


def numbered_tag(tag: Mapping[str, Any], head: str) -> dict[str, Any]:
    """A tag with any number, and ``head`` behind it, in front of its content: calls that the model counts."""
    number = {"type": "regex", "pattern": "[0-9]+"}
    elements = [number, {"type": "const_string", "value": head}, tag["content"]]
    return {**tag, "content": {"type": "sequence", "elements": elements}}


def offered_tools(tools: Sequence[Tool], tool_choice: ToolChoice) -> list[Tool]:
    """The tools that a call may name, none when nothing is to be constrained."""
    if tool_choice == "none" or (tool_choice == "auto" and not any(tool.strict for tool in tools)):
        return []
    named = tool_choice.removeprefix("function:") if tool_choice.startswith("function:") else None
    return [tool for tool in tools if named is None or tool.name == named]


def call_tags(
    tags: list[dict[str, Any]],
    tool_choice: ToolChoice,
    *,
    separator: str,
    triggers: Sequence[str] = (),
    excludes: Sequence[str] = (),
) -> dict[str, Any] | None:
    """The node for calls in a row.

    Args:
        tags: the tags of all tools that may be called.
        tool_choice: as in ``ParseContext.tool_choice``. With ``"auto"`` text is free until a trigger appears; a forced
            choice leaves no free text, and a named function is called once.
        separator: what stands between two calls.
        triggers: what begins a call in free text; without any, ``"auto"`` cannot be constrained.
        excludes: what must not appear in the free text.

    Returns:
        None when there is nothing to constrain.
    """
    if not tags:
        return None
    if tool_choice == "auto":
        if not triggers:
            return None
        node: dict[str, Any] = {
            "type": "triggered_tags",
            "triggers": list(triggers),
            "tags": tags,
            "at_least_one": False,
            "stop_after_first": False,
        }
        return {**node, "excludes": list(excludes)} if excludes else node
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": tool_choice.startswith("function:"),
    }


def call_section(
    tags: list[dict[str, Any]],
    tool_choice: ToolChoice,
    *,
    begin: str,
    end: str,
    separator: str,
    excludes: Sequence[str] = (),
) -> dict[str, Any] | None:
    """The node for calls in a row with something around all of them.

    Args:
        tags: the tags of all tools that may be called.
        tool_choice: as in ``call_tags``.
        begin: what stands in front of the first call, and is their trigger in free text.
        end: what stands behind the last call.
        separator: what stands between two calls.
        excludes: what must not appear in the free text.

    Returns:
        None when there is nothing to constrain.
    """
    calls = call_tags(tags, "required" if tool_choice == "auto" else tool_choice, separator=separator)
    if calls is None:
        return None
    section = tag_node(begin, calls, end)
    if tool_choice != "auto":
        return section
    return call_tags([section], "auto", separator="", triggers=(begin,), excludes=excludes)


def call_list(
    tools: Sequence[Tool], tool_choice: ToolChoice, *, begin: str, end: str, key: str = "arguments"
) -> dict[str, Any] | None:
    """The node for a JSON list of ``{"name", "arguments"}`` objects.

    Args:
        tools: the tools of the request.
        tool_choice: as in ``call_tags``.
        begin: what stands in front of the first object, the list's bracket included.
        end: what stands behind the last one.
        key: the key of the arguments.

    Returns:
        None when there is nothing to constrain.
    """
    tags = [
        call_tag(f'{{"name": {json.dumps(tool.name)}, {json.dumps(key)}: ', tool, "}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_section(tags, tool_choice, begin=begin, end=end, separator=", ")


def call_objects(
    tools: Sequence[Tool], tool_choice: ToolChoice, *, begin: str, end: str, key: str = "arguments"
) -> dict[str, Any] | None:
    """The node for ``{"name", "arguments"}`` objects that stand each between two markers.

    Args:
        tools: the tools of the request.
        tool_choice: as in ``call_tags``.
        begin: the marker in front of each object, and its trigger in free text.
        end: the one behind it.
        key: the key of the arguments.

    Returns:
        None when there is nothing to constrain; else both layouts that models write, on lines of their own and compact.
    """
    tags = [
        call_tag(f'{begin}{line}{{"name": {json.dumps(tool.name)}, {json.dumps(key)}: ', tool, f"}}{line}{end}")
        for tool in offered_tools(tools, tool_choice)
        for line in ("\n", "")
    ]
    return call_tags(tags, tool_choice, separator="", triggers=(begin,))
