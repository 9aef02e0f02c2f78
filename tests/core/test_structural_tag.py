"""The nodes of structural tags."""

from __future__ import annotations

import pytest

from derender_core import Tool, call_tag, call_tags, offered_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
PLAIN, STRICT = Tool("plain", SCHEMA), Tool("strict", SCHEMA, strict=True)


@pytest.mark.parametrize(
    ("tools", "choice", "names"),
    [
        ((PLAIN, STRICT), "none", []),
        ((PLAIN,), "auto", []),
        ((PLAIN, STRICT), "auto", ["plain", "strict"]),
        ((PLAIN,), "required", ["plain"]),
        ((PLAIN, STRICT), "function:plain", ["plain"]),
        ((PLAIN, STRICT), "function:other", []),
        ((), "required", []),
    ],
)
def test_offers(tools: tuple[Tool, ...], choice: str, names: list[str]) -> None:
    assert [tool.name for tool in offered_tools(tools, choice)] == names


def test_only_strict_arguments_are_held_to_their_schema() -> None:
    assert call_tag("<", STRICT, ">")["content"] == {"type": "json_schema", "json_schema": SCHEMA}
    for tool in (PLAIN, Tool("none", None, strict=True)):
        assert call_tag("<", tool, ">")["content"] == {"type": "json_schema", "json_schema": True}
    tag = call_tag("<", STRICT, ">")
    assert (tag["type"], tag["begin"], tag["end"]) == ("tag", "<", ">")


def test_auto_leaves_text_free_until_a_trigger() -> None:
    tags = [call_tag("<f>", STRICT, "</f>")]
    assert call_tags(tags, "auto", separator="\n", triggers=("<f>",), excludes=("<x>",)) == {
        "type": "triggered_tags",
        "triggers": ["<f>"],
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": False,
        "excludes": ["<x>"],
    }
    assert "excludes" not in (call_tags(tags, "auto", separator="", triggers=("<f>",)) or {})
    assert call_tags(tags, "auto", separator="") is None


@pytest.mark.parametrize(("choice", "once"), [("required", False), ("function:strict", True)])
def test_a_forced_choice_leaves_no_text(choice: str, once: bool) -> None:
    tags = [call_tag("<f>", STRICT, "</f>")]
    assert call_tags(tags, choice, separator="\n", triggers=("<f>",)) == {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": once,
    }


def test_nothing_to_hold_to_is_none() -> None:
    assert call_tags([], "required", separator="") is None
