"""Bare JSON of a generic grammar, where the request forced a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    ParseContext,
    Pipeline,
    State,
    Text,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    fold_message,
    load_parser,
    merge_events,
)

TOOLS = (Tool("f"), Tool("g"))
NATIVE = '<tool_call>\n{"name": "g", "arguments": {"x": 1}}\n</tool_call>'


def stream(output: str, choice: str, mode: Any = "whole", reason: str | None = "stop") -> list[Event]:
    """All one-character deltas, with the state checked and through JSON at each step."""
    pipeline = Pipeline(load_parser("tool", "hermes"))
    context = ParseContext(tools=TOOLS, tool_choice=choice, stream_tool_calls=mode)
    state: State | None = None
    events: list[Event] = []
    for delta in [*map(Delta, output), Delta("", final=True, finish_reason=reason)]:
        step = pipeline.parse_delta(state, delta, context)
        events += step.events
        state = json.loads(json.dumps(step.state))
        assert pipeline.check_state(state or {}) is None
    once = pipeline.extract(Delta(output, final=True, finish_reason=reason), context)
    if mode == "whole":
        assert merge_events(events) == merge_events(once)
    return merge_events(events)


def calls(output: str, choice: str, **options: Any) -> list[tuple[str, str]]:
    message = fold_message(stream(output, choice, **options))
    assert message.content is None
    return [(call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('[{"name": "f", "parameters": {"a": 1.0}}]', [("f", '{"a": 1.0}')]),
        (' [\n {"name": "f", "arguments": {}} , {"parameters": {"b": "]"}, "name": "g"} ] ',
         [("f", "{}"), ("g", '{"b": "]"}')]),
        ('[{"name": "f"}]', [("f", "{}")]),
        ('[{"name": "f", "arguments": {}}', [("f", "{}")]),
        (NATIVE, [("g", '{"x": 1}')]),
        (f"\n\n{NATIVE}\n{NATIVE}", [("g", '{"x": 1}')] * 2),
    ],
)  # fmt: skip
def test_required(output: str, expected: list[tuple[str, str]], mode: str) -> None:
    assert calls(output, "required", mode=mode) == expected


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{}", [("f", "{}")]),
        (' \n{"a": {"b": [1, "}"]}}\n', [("f", '{"a": {"b": [1, "}"]}}')]),
        ('{"name": "Ann", "age": 7}', [("f", '{"name": "Ann", "age": 7}')]),
        ('{"name": "g", "arguments": {"x": 1}}', [("f", '{"name": "g", "arguments": {"x": 1}}')]),
        (NATIVE, [("g", '{"x": 1}')]),
    ],
)
def test_named(output: str, expected: list[tuple[str, str]], mode: str) -> None:
    assert calls(output, "function:f", mode=mode) == expected


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize("choice", ["required", "function:f"])
@pytest.mark.parametrize(
    "output", ["Sorry, no.", "  Sorry {no}", "[1] says", "[see] this", "{not json}", '"text"', "12", " \n x", '[{}]']
)  # fmt: skip
def test_anything_else_is_content(output: str, choice: str, mode: str) -> None:
    assert stream(output, choice, mode) == [Text(output)]


def test_calls_of_functions_that_are_not_offered_are_no_generic_grammars() -> None:
    output = '[{"name": "other", "arguments": {}}]'
    assert stream(output, "required") == stream(output, "required", "arguments") == [Text(output)]


@pytest.mark.parametrize(
    ("choice", "output", "expected"),
    [
        ("required", '[{"name": "f", "arguments": {}}, {"name": "g", "argu', [("f", "{}")]),
        ("required", '[{"name": "f", "arguments": {"a', []),
        ("required", "[", []),
        ("function:f", '{"a": [1', []),
        ("function:f", '{"na', []),
    ],
)
def test_what_is_cut_is_dropped(choice: str, output: str, expected: list[tuple[str, str]]) -> None:
    for reason in ("length", "stop"):
        for mode in ("whole", "arguments"):
            assert calls(output, choice, mode=mode, reason=reason) == expected


def test_text_behind_the_json_is_content() -> None:
    assert fold_message(stream('[{"name": "f"}] Done. ', "required")).content == " Done. "
    assert fold_message(stream('{"a": 1} Done.', "function:f", "arguments")).content == " Done."


@pytest.mark.parametrize(
    ("choice", "output"),
    [("required", '[{"name": "f", "arguments": {"a": "xyz"}}]'), ("function:f", '{"a": "xyz"}')],
)
def test_arguments_are_sent_as_they_come(choice: str, output: str) -> None:
    pipeline = Pipeline(load_parser("tool", "hermes"))
    context = ParseContext(tools=TOOLS, tool_choice=choice, stream_tool_calls="arguments")
    at = output.index("y")
    first = pipeline.parse_delta(None, Delta(output[:at]), context)
    assert merge_events(first.events) == [ToolCallStart(0, "f"), ToolCallArguments(0, '{"a": "x')]
    second = pipeline.parse_delta(first.state, Delta(output[at:], final=True, finish_reason="stop"), context)
    assert merge_events(second.events) == [ToolCallArguments(0, 'yz"}'), ToolCallEnd(0)]


def test_no_forced_choice_means_no_bare_json() -> None:
    for choice in ("auto", "none"):
        assert stream('{"a": 1}', choice) == [Text('{"a": 1}')]
        assert stream('[{"name": "f"}]', choice) == [Text('[{"name": "f"}]')]
