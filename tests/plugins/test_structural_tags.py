"""What an engine writes when it is held to a parser's structural tag is what that parser reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from derender_core import Delta, ParseContext, Parser, Tool, fold_message, list_parsers, load_parser

PROPERTIES = {"a": {"type": "integer"}, "text": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "properties": PROPERTIES,
    "required": ["a", "text"],
    "additionalProperties": False,
}
ARGUMENTS = {"a": 7, "text": "Łódź </x> {é}"}
TOOLS = (Tool("ping", SCHEMA, strict=True), Tool("note.it-2", SCHEMA, strict=True), Tool("free", SCHEMA))
PYTHON_TOOLS = (TOOLS[0], Tool("note_it.two", SCHEMA, strict=True), TOOLS[2])
PYTHON = ("lfm2", "llama4_pythonic", "olmo3", "pythonic")
"""Formats whose names are Python's."""

# How a grammar backend writes arguments in the styles that it knows. A string parameter is written as it is.
STYLES: dict[str, Callable[[str, Any], str]] = {
    "qwen_xml": lambda key, value: f"<parameter={key}>{value}</parameter>",
    "minimax_xml": lambda key, value: f'<parameter name="{key}">{value}</parameter>',
    "glm_xml": lambda key, value: f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    "deepseek_xml": lambda key, value: (
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">{value}</｜DSML｜parameter>'
    ),
    "kimi_k3_xml": lambda key, value: (
        f'<|open|>argument key="{key}" type="{"string" if isinstance(value, str) else "number"}"<|sep|>'
        f"{value}<|close|>argument<|sep|>"
    ),
    "gemma": lambda key, value: (
        f"{'{' if key == 'a' else ','}{key}:" + (f'<|"|>{value}<|"|>}}' if isinstance(value, str) else str(value))
    ),
}

PARSERS = [info.name for info in list_parsers() if info.slot == "tool" and info.error is None]

NOTHING = {"type": "tags_with_separator", "tags": [], "separator": "", "at_least_one": True, "stop_after_first": True}
# The key in what stands in front of an argument that has a tag of its own.
KEY = re.compile(r"""(?: name="|<arg_key[^>]*>|^)(a|text)(?=["<=:])""")


def contents(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The nodes that hold arguments, in order."""
    if node["type"] == "json_schema":
        yield node
    elif node["type"] == "tag":
        yield from contents(node["content"])
    elif node["type"] in ("sequence", "or"):
        for element in node["elements"]:
            yield from contents(element)
    elif "tags" in node:
        for tag in node["tags"]:
            yield from contents(tag)


def spell(node: Mapping[str, Any], compact: bool, value: object = None) -> list[str]:
    """All texts that a node allows, with one value for all arguments and each tag used once."""
    kind = node["type"]
    if kind == "any_text":
        return [str(value)]
    if kind == "json_schema" and value is not None:
        return [json.dumps(value)]
    if kind == "json_schema":
        style = node.get("style", "json")
        if style == "json":
            separators = (",", ":") if compact else None
            return [json.dumps(ARGUMENTS, ensure_ascii=compact, separators=separators)]
        return ["".join(STYLES[style](key, value) for key, value in ARGUMENTS.items())]
    if kind == "tag":
        key = KEY.search(node["begin"])
        argument = ARGUMENTS[key[1]] if key else None
        return [node["begin"] + content + node["end"] for content in spell(node["content"], compact, argument)]
    if kind == "const_string":
        return [node["value"]]
    if kind == "regex":
        assert node["pattern"] == "[0-9]+"
        return ["3"]
    if kind == "sequence":
        return ["".join(parts) for parts in product(*(spell(element, compact) for element in node["elements"]))]
    texts = [text for tag in node["tags"] for text in spell(tag, compact)]
    if kind == "triggered_tags":
        return [f"First {text} then." for text in texts]
    assert kind == "tags_with_separator"
    if not node["at_least_one"]:  # the arguments of a call
        return [node["separator"].join(texts)]
    return texts if node["stop_after_first"] else [*texts, node["separator"].join(texts)]


def tools_of(name: str) -> tuple[Tool, ...]:
    return PYTHON_TOOLS if name in PYTHON else TOOLS


def tag_of(name: str, choice: str) -> tuple[Parser, Mapping[str, Any]]:
    parser = load_parser("tool", name)
    tag = parser.structural_tag(tools_of(name), choice)
    if tag is None:
        return parser, NOTHING
    return parser, tag


def test_the_main_parsers_have_tags() -> None:
    for name in ("hermes", "deepseek_v3", "llama3_json"):
        assert load_parser("tool", name).structural_tag(TOOLS, "required") is not None


@pytest.mark.parametrize("choice", ["auto", "required", "function"])
@pytest.mark.parametrize("name", PARSERS)
def test_what_is_allowed_is_read(name: str, choice: str) -> None:
    parser, tag = tag_of(name, f"function:{tools_of(name)[1].name}" if choice == "function" else choice)
    json.dumps(tag)
    if any(node.get("style", "json") not in {"json", *STYLES} for node in contents(tag)):
        return  # a style that only the grammar backend can write
    called = set()
    tools = tools_of(name)
    for mode in ("whole", "arguments"):
        context = ParseContext(tools=tools, tool_choice="auto", stream_tool_calls=mode)  # type: ignore[arg-type]
        for compact in (False, True):
            for text in spell(tag, compact):
                step = parser.parse_delta(None, Delta(text, final=True, finish_reason="stop"), context)
                message = fold_message(step.events)
                assert message.tool_calls, text
                for call in message.tool_calls:
                    assert json.loads(call.arguments) == ARGUMENTS, text
                called |= {call.name for call in message.tool_calls}
                if choice == "auto":
                    assert (message.content or "").split() == ["First", "then."], text
                else:
                    assert message.content is None, text
    if tag.get("tags", tag):
        assert called == {tool.name for tool in (tools[1:2] if choice == "function" else tools)}


@pytest.mark.parametrize("name", PARSERS)
def test_triggers_begin_their_tags(name: str) -> None:
    _, tag = tag_of(name, "auto")
    if tag["type"] == "triggered_tags":
        for each in tag["tags"]:
            assert any(each["begin"].startswith(trigger) for trigger in tag["triggers"]), each["begin"]
        openers = load_parser("tool", name).tool_call_openers(ParseContext(tools=TOOLS))
        for trigger in tag["triggers"]:
            assert any(trigger.startswith(opener) for opener in openers), trigger


@pytest.mark.parametrize("name", PARSERS)
def test_schemas_are_those_of_strict_tools(name: str) -> None:
    for choice in ("auto", "required"):
        _, tag = tag_of(name, choice)
        schemas = [node["json_schema"] for node in contents(tag)]
        held = (SCHEMA, *PROPERTIES.values())
        assert all(schema in (*held, True) for schema in schemas)
        assert not schemas or (True in schemas and any(schema in schemas for schema in held))


@pytest.mark.parametrize("name", PARSERS)
def test_nothing_is_constrained_without_need(name: str) -> None:
    parser = load_parser("tool", name)
    loose = (Tool("ping", SCHEMA), Tool("free"))
    assert parser.structural_tag(TOOLS, "none") is None
    assert parser.structural_tag(loose, "auto") is None
    assert parser.structural_tag((), "auto") is None
    assert parser.structural_tag((), "required") is None
    assert parser.structural_tag(TOOLS, "function:unknown") is None


@pytest.mark.parametrize("name", PARSERS)
def test_every_format_has_one(name: str) -> None:
    tools = tools_of(name)[:2] if name == "minimax_m3" else tools_of(name)
    assert load_parser("tool", name).structural_tag(tools, "required") is not None


def test_a_style_that_needs_schemas_is_for_strict_tools() -> None:
    parser = load_parser("tool", "minimax_m3")
    assert parser.structural_tag(TOOLS, "required") is None
    tag = parser.structural_tag(TOOLS, "function:ping")
    assert tag is not None
    assert [node["json_schema"] for node in contents(tag)] == [SCHEMA]


@pytest.mark.parametrize("name", PYTHON)
def test_what_is_no_python_name_cannot_be_written_in_python(name: str) -> None:
    for tool in (Tool("note.it-2", SCHEMA), Tool("ping", {"properties": {"the key": {}}})):
        assert load_parser("tool", name).structural_tag((TOOLS[0], tool), "required") is None
