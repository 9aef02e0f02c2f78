"""Strict, soft, acceptable and unlabelled: how near a message is to what a case expects."""

from __future__ import annotations

from typing import Any

import pytest

from derender_core import Message, ToolCall
from derender_core.testing import Case, compare_fields, differences, match
from derender_core.testing.report import side_by_side

CALL = ToolCall("f", "{}")


def case(**keys: Any) -> Case:
    return Case.model_validate({"id": "a", "output": "x", **keys})


@pytest.mark.parametrize(
    ("expected", "message", "level"),
    [
        ({"content": "x"}, Message("x"), "strict"),
        ({"content": "x"}, Message(" x\n"), "soft"),
        ({"content": "x"}, Message("y"), "differs"),
        ({"content": "x", "reasoning_content": "r"}, Message(" x", "s"), "differs"),
        ({"content": "x"}, Message(" x", None, (CALL,)), "differs"),
        ({}, Message(" "), "soft"),
    ],
)
@pytest.mark.parametrize("compare", ["strict", "soft"])
def test_strict_and_soft_are_told_apart_however_the_case_compares(
    expected: dict[str, Any], message: Message, level: str, compare: str
) -> None:
    one = case(expected=expected, compare=compare)
    assert match(one, message) == level
    right = level == "strict" or (level == "soft" and compare == "soft")
    assert (differences(one, message) == []) is right


def test_the_nearest_alternative_counts() -> None:
    one = case(any_of=[{"content": "y"}, {"content": "x"}, {"content": "x "}])
    assert match(one, Message("x ")) == "strict"
    assert match(one, Message(" y")) == "soft"
    assert len(differences(one, Message("z"))) == 3


def test_nothing_is_wrong_with_a_message_that_nobody_labelled() -> None:
    one = case(unlabelled=True)
    assert match(one, Message("anything")) == "unlabelled"
    assert differences(one, Message("anything")) == []


@pytest.mark.parametrize(
    ("outcomes", "message", "right"),
    [
        (["no_tool_calls"], Message(None), True),
        (["no_tool_calls"], Message("other"), True),
        (["no_tool_calls"], Message("<a>bad", None, (CALL,)), False),
        (["content_passthrough"], Message("<a>bad"), True),
        (["content_passthrough"], Message("bad"), False),
        (["content_passthrough"], Message("bad", "<a>"), True),
        (["content_passthrough"], Message(None, "<a>bad"), False),
        (["content_passthrough"], Message("<a>bad", None, (CALL,)), False),
        (["content_passthrough", "no_tool_calls"], Message("bad"), True),
    ],
)
def test_acceptable_outcomes(outcomes: list[str], message: Message, right: bool) -> None:
    one = case(output="<a>bad", expected_error=outcomes)
    assert match(one, message) == ("strict" if right else "differs")
    assert (differences(one, message) == []) is right
    if not right:
        assert " or ".join(outcomes) in differences(one, message)[0]


def test_the_output_of_token_ids_is_passed_through() -> None:
    one = case(output=None, token_ids=[1], tokenizer="t", expected_error=["content_passthrough"])
    assert match(one, Message("bad"), "bad") == "strict"


def test_arguments_that_are_no_json_are_different_not_an_error() -> None:
    one = case(expected={"tool_calls": [{"name": "f", "arguments": {}}]})
    assert match(one, Message(None, None, (ToolCall("f", "{"),))) == "differs"


def test_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    expected = {"content": "x", "reasoning_content": "r" * 60, "tool_calls": [{"name": "f", "arguments": {}}]}
    one = case(expected=expected)
    table = side_by_side(compare_fields(one, Message(" x", "r" * 60, (ToolCall("g", "{}"),)), one.alternatives[0]))
    lines = table.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["expected", "got"]
    assert lines[1].split() == ["content", "'x'", "~", "'", "x'"]
    assert lines[2].split()[0] == "reasoning_content"
    assert lines[3].strip() != ""  # what is longer than a cell goes on
    assert ["tool_calls.0", "f", "{}", "≠", "g", "{}"] in [line.split() for line in lines]
    assert lines[-1].strip().startswith("~ equal but for white space")
