"""Comparing a message with what a case expects. Strict and soft equality are told apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from derender_core.message import Message, ToolCall
from derender_core.testing.cases import Case, Expected, ExpectedCall

__all__ = ["Field", "Match", "compare_fields", "differences", "match", "same_json"]

Match = Literal["strict", "soft", "differs", "unlabelled"]
"""strict: equal. soft: equal but for white space around content and reasoning. unlabelled: nobody said what is."""


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a message, as expected and as got.

    Args:
        name: such as ``content`` or ``tool_calls.0``.
        expected: as text.
        got: as text.
        match: "strict", "soft" or "differs".
    """

    name: str
    expected: str
    got: str
    match: Match


def match(case: Case, message: Message, output: str | None = None) -> Match:
    """How near a message is to what the case expects; the nearest of its alternatives counts.

    Args:
        case: the case.
        message: what came.
        output: the whole output, where the case holds token ids.
    """
    if case.unlabelled:
        return "unlabelled"
    if case.expected_error:
        return "strict" if any(_is_outcome(case, one, message, output) for one in case.expected_error) else "differs"
    found = [_worst(compare_fields(case, message, expected)) for expected in case.alternatives]
    levels: tuple[Match, ...] = ("strict", "soft")
    return next((level for level in levels if level in found), "differs")


def differences(case: Case, message: Message, output: str | None = None) -> list[str]:
    """What a message lacks to be the one that a case expects; empty when it is right, or when nobody said what is."""
    got = match(case, message, output)
    if got in ("strict", "unlabelled") or (got == "soft" and case.compare == "soft"):
        return []
    if case.expected_error:
        outcomes = " or ".join(case.expected_error)
        return [f"none of the acceptable outcomes: {outcomes}\n  got      {_show_message(message)}"]
    faults = []
    for at, expected in enumerate(case.alternatives, 1):
        head = f"alternative {at}: " if len(case.alternatives) > 1 else ""
        faults += [
            f"{head}{field.name}{_soft_note(field)}\n  expected {field.expected}\n  got      {field.got}"
            for field in compare_fields(case, message, expected)
            if not _is_right(case, field)
        ]
    return faults


def _is_right(case: Case, field: Field) -> bool:
    return field.match == "strict" or (field.match == "soft" and case.compare == "soft")


def _soft_note(field: Field) -> str:
    return " (equal but for white space around it)" if field.match == "soft" else ""


def _worst(fields: list[Field]) -> Match:
    levels = {field.match for field in fields}
    order: tuple[Match, ...] = ("differs", "soft")
    return next((level for level in order if level in levels), "strict")


def compare_fields(case: Case, message: Message, expected: Expected) -> list[Field]:
    """The parts of a message beside those of one alternative; only those that the case compares."""
    fields = [
        Field(name, repr(wanted), repr(got), _match_text(got, wanted))
        for name, got, wanted in (
            ("content", message.content, expected.content),
            ("reasoning_content", message.reasoning, expected.reasoning_content),
        )
        if name in case.check
    ]
    if "tool_calls" in case.check:
        fields += _call_fields(message.tool_calls, expected.tool_calls)
    return fields


def _match_text(got: str | None, wanted: str | None) -> Match:
    if (got or None) == (wanted or None):
        return "strict"
    return "soft" if (got or "").strip() == (wanted or "").strip() else "differs"


def _call_fields(got: tuple[ToolCall, ...], expected: tuple[ExpectedCall, ...]) -> list[Field]:
    fields = []
    for at in range(max(len(got), len(expected))):
        left = got[at] if at < len(got) else None
        right = expected[at] if at < len(expected) else None
        same = left is not None and right is not None and _is_call(left, right)
        fields.append(Field(f"tool_calls.{at}", _show(right), _show(left), "strict" if same else "differs"))
    return fields


def _is_call(got: ToolCall, expected: ExpectedCall) -> bool:
    if expected.arguments_text is not None and got.arguments != expected.arguments_text:
        return False
    try:
        arguments = json.loads(got.arguments)
    except ValueError:
        return False
    return got.name == expected.name and same_json(arguments, expected.arguments)


def _show(call: ToolCall | ExpectedCall | None) -> str:
    if call is None:
        return "no call"
    if isinstance(call, ToolCall):
        return f"{call.name} {call.arguments}"
    return f"{call.name} {call.arguments_text or json.dumps(call.arguments, ensure_ascii=False)}"


def _show_message(message: Message) -> str:
    calls = ", ".join(map(_show, message.tool_calls)) or "no call"
    return f"content {message.content!r}, reasoning_content {message.reasoning!r}, {calls}"


def _is_outcome(case: Case, outcome: str, message: Message, output: str | None) -> bool:
    if message.tool_calls:
        return False
    if outcome == "no_tool_calls":
        return True
    # Reasoning and its markers come before the content, which is then the end of the output.
    text, content = case.text if output is None else output, message.content or ""
    if case.compare == "soft":
        text, content = text.strip(), content.strip()
    return text == content or (message.reasoning is not None and bool(content) and text.endswith(content))


def same_json(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, types included: 1, 1.0 and true all differ. The order of keys is free."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
