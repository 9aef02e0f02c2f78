"""The constraint on an engine's output: from tools, ``response_format`` or ``structured_outputs``."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_core.inputs import ParseContext, Tool
from derender_core.registry import Parser
from derender_server.wire.requests import ChatCompletionRequest, CompletionRequest

__all__ = ["chat_constraint", "completion_constraint"]

logger = logging.getLogger(__name__)
DEFINITIONS = ("$defs", "definitions")


def completion_constraint(request: CompletionRequest | ChatCompletionRequest) -> dict[str, Any] | None:
    """What the request asks for by itself.

    Raises:
        InputError: ``structured_outputs`` and ``response_format`` both constrain the output.
    """
    by_format = request.response_format.to_engine() if request.response_format else None
    if request.structured_outputs is None:
        return by_format
    if by_format is not None:
        raise InputError("structured_outputs and response_format exclude each other; give one", "structured_outputs")
    return request.structured_outputs.to_engine()


def chat_constraint(
    request: ChatCompletionRequest, context: ParseContext, tool_parser: Parser | None, *, auto: bool = True
) -> dict[str, Any] | None:
    """What a chat request asks for; a forced tool choice wins over the rest.

    Args:
        request: the request.
        context: what the parsers know of it.
        tool_parser: it may know a grammar of its format.
        auto: whether calls of ``tool_choice: "auto"`` will be read.

    Raises:
        InputError: constraints that exclude each other, or tools that cannot be put into one schema.
        ParserError: the parser failed.
    """
    asked = completion_constraint(request)
    tools = context.tools
    if not tools or request.tool_choice_text == "none":
        return asked
    if request.tool_choice_text == "auto":
        if asked is not None or not auto or not any(tool.strict for tool in tools):
            return asked
        return _structural_tag(tool_parser, tools, "auto")
    if asked is not None:
        logger.info("the forced tool choice replaces the structured output that the request also asks for")
    return _structural_tag(tool_parser, tools, context.tool_choice) or {"json": _call_schema(request, context)}


def _structural_tag(parser: Parser | None, tools: Sequence[Tool], tool_choice: str) -> dict[str, Any] | None:
    node = parser.structural_tag(tools, tool_choice) if parser else None
    if node is None:
        return None
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": node}, ensure_ascii=False)}


def _call_schema(request: ChatCompletionRequest, context: ParseContext) -> dict[str, Any]:
    """A plain JSON grammar of the forced call, for formats without a grammar; derender reads such bare JSON too."""
    if context.forced_name is not None:
        named = next((tool for tool in context.tools if tool.name == context.forced_name), None)
        return dict((named and named.parameters) or {"type": "object"})
    definitions: dict[str, dict[str, Any]] = {}
    branches = [_branch(tool, at, definitions) for at, tool in enumerate(context.tools)]
    schema: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": branches}}
    if request.parallel_tool_calls is False:
        schema["maxItems"] = 1
    return schema | definitions


def _branch(tool: Tool, at: int, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parameters = dict(tool.parameters or {"type": "object"})
    for key in DEFINITIONS:  # references in a schema count from its root, so definitions move there
        if key in parameters:
            _add_definitions(
                definitions.setdefault(key, {}), parameters.pop(key), f"tools.{at}.function.parameters.{key}"
            )
    return {
        "properties": {"name": {"type": "string", "enum": [tool.name]}, "parameters": parameters},
        "required": ["name", "parameters"],
    }


def _add_definitions(known: dict[str, Any], added: object, param: str) -> None:
    if not isinstance(added, Mapping):
        raise InputError(f"{param} must be an object", param)
    for name, definition in added.items():
        if known.setdefault(name, definition) != definition:
            raise InputError(
                f"{param}.{name}: another tool defines {name!r} differently; rename one of them", f"{param}.{name}"
            )
