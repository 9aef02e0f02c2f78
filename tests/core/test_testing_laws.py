"""The laws catch parsers that break them, and the reports say where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    ParseContext,
    Parser,
    Pipeline,
    Reasoning,
    State,
    Step,
    Text,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    hookimpl,
    make_parser,
)
from derender_core.testing import LAWS, Case, Failed, Law, Sample, assert_case, assert_laws, event_faults

Parse = Callable[[State, Delta], Step]


class Plugin:
    """A parser made of a function."""

    def __init__(self, parse: Parse, check: Callable[[State], str | None] = lambda _: None) -> None:
        self.parse, self.check = parse, check

    @hookimpl
    def derender_parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        self.saw(context)
        return self.parse({} if state is None else state, delta)

    def saw(self, context: ParseContext) -> None:
        """For those who want to know."""

    @hookimpl
    def derender_check_state(self, state: State) -> str | None:
        return self.check(state)


def parser(parse: Parse, **options: Any) -> Parser:
    return make_parser("tool", "toy", Plugin(parse, **options))


def say(text: str) -> tuple[Event, ...]:
    return (Text(text),) if text else ()


def honest(state: State, delta: Delta) -> Step:
    """``(NAME)`` is a call; what is no call is text."""
    buffer = state.get("buffer", "") + delta.text
    calls = state.get("calls", 0)
    events: list[Event] = []
    while buffer:
        start = buffer.find("(")
        if start:
            count = len(buffer) if start < 0 else start
            events += say(buffer[:count])
            buffer = buffer[count:]
            continue
        end = buffer.find(")")
        if end < 0:
            break
        name, buffer = buffer[1:end], buffer[end + 1 :]
        if name == "ping":
            events += [ToolCallStart(calls, name), ToolCallArguments(calls, "{}"), ToolCallEnd(calls)]
            calls += 1
        else:
            events += say(f"({name})")
    if delta.final:
        events += say(buffer)
        buffer = ""
    return Step({"buffer": buffer, "calls": calls}, tuple(events))


CASES = [
    Case.model_validate(
        {
            "id": "calls",
            "output": "a (ping) b (pong) (ping)",
            "tools": [{"name": "ping"}],
            "expected": {
                "content": "a  b (pong) ",
                "tool_calls": [{"name": "ping", "arguments": {}}, {"name": "ping", "arguments": {}}],
            },
        }
    ),
    Case.model_validate(
        {"id": "cut", "output": "a (pi", "tools": [{"name": "ping"}], "tags": ["cut"], "expected": {"content": "a (pi"}}
    ),
]


def test_an_honest_parser_keeps_all_laws() -> None:
    assert_laws(parser(honest), CASES, markers=["(ping)", "("])


def test_an_honest_parser_passes_its_cases() -> None:
    for case in CASES:
        assert_case(case, Pipeline(parser(honest)), pairs=True)


def raises(state: State, delta: Delta) -> Step:
    if "\\" in delta.text:
        raise ValueError("no backslashes")
    return honest(state, delta)


def changes_its_input(state: State, delta: Delta) -> Step:
    step = honest(state, delta)
    state["seen"] = True
    return step


def counts_in_a_closure() -> Parse:
    seen: list[str] = []

    def parse(_state: State, delta: Delta) -> Step:
        seen.append(delta.text)
        return Step({"seen": len(seen)}, say(delta.text))

    return parse


def keeps_a_tuple(_state: State, delta: Delta) -> Step:
    return Step({"pair": (1, 2)}, say(delta.text))


def keeps_an_object(_state: State, delta: Delta) -> Step:
    return Step({"delta": delta}, say(delta.text))


def keeps_integer_keys(_state: State, delta: Delta) -> Step:
    return Step({"seen": {1: "x"}}, say(delta.text))


def sees_markers_only_whole(state: State, delta: Delta) -> Step:
    calls = state.get("calls", 0)
    if "(ping)" not in delta.text:
        return Step({"calls": calls}, say(delta.text))
    call = (ToolCallStart(calls, "ping"), ToolCallArguments(calls, "{}"), ToolCallEnd(calls))
    before, _, after = delta.text.partition("(ping)")
    return Step({"calls": calls + 1}, (*say(before), *call, *say(after)))


def drops_the_last_character(state: State, delta: Delta) -> Step:
    text = state.get("held", "") + delta.text
    return Step({"held": text[-1:]}, say(text[:-1]))


def shouts(_state: State, delta: Delta) -> Step:
    return Step({}, say(delta.text.replace("{", "<")))


def remembers_everything(state: State, delta: Delta) -> Step:
    return Step({"all": state.get("all", "") + delta.text}, say(delta.text))


def forgets_to_end(state: State, delta: Delta) -> Step:
    step = honest(state, delta)
    return Step(step.state, tuple(event for event in step.events if not isinstance(event, ToolCallEnd)))


def says_nothing_aloud(_state: State, delta: Delta) -> Step:
    return Step({}, (Text(delta.text),))


@pytest.mark.parametrize(
    ("parse", "law", "says"),
    [
        (raises, "never_raises", "no backslashes"),
        (changes_its_input, "state_is_not_changed", "was changed to"),
        (counts_in_a_closure(), "state_is_not_changed", "two equal calls gave"),
        (keeps_a_tuple, "state_survives_json", "the state changes in JSON"),
        (keeps_an_object, "state_survives_json", "the state is no JSON"),
        (keeps_integer_keys, "state_survives_json", "the state changes in JSON"),
        (sees_markers_only_whole, "cuts_do_not_matter", "they part at event 0"),
        (drops_the_last_character, "no_text_is_lost", "prose did not come back unchanged"),
        (shouts, "no_text_is_lost", "not in the output"),
        (remembers_everything, "state_is_bounded", "the state reached"),
        (forgets_to_end, "events_are_well_formed", "was not ended"),
        (says_nothing_aloud, "events_are_well_formed", "is empty"),
    ],
)
def test_a_law_that_is_broken_is_named(parse: Parse, law: str, says: str) -> None:
    broken = next(one for one in LAWS if one.__name__ == law)
    with pytest.raises(Failed) as caught:
        assert_laws(parser(parse), CASES, markers=["(ping)", "("], laws=[broken], soup=300)
    report = str(caught.value)
    assert report.startswith(f"tool parser 'toy' breaks the law {law}\n")
    assert says in report


def test_a_stream_that_differs_from_extract_is_caught() -> None:
    class Twice(Plugin):
        @hookimpl
        def derender_extract(self, output: Delta) -> list[Event]:
            return [Text(output.text.upper())]

    broken: Law = next(one for one in LAWS if one.__name__ == "extract_is_the_stream")
    with pytest.raises(Failed, match="they part at event 0"):
        assert_laws(make_parser("tool", "toy", Twice(honest)), CASES, laws=[broken])


def test_a_state_that_its_own_check_refuses_is_caught() -> None:
    suspicious = parser(honest, check=lambda state: "too long" if len(state["buffer"]) > 3 else None)
    with pytest.raises(Failed, match="check_state refuses the parser's own state: too long"):
        assert_laws(suspicious, CASES)


def test_a_law_can_be_held_to_one_sample() -> None:
    sample = Sample("mine", Delta("(ping)", final=True), ParseContext(tools=(Tool("ping"),)), clean=True)
    for law in LAWS:
        law(parser(honest), sample)


def test_reasoning_parsers_are_tried_in_all_beginnings() -> None:
    seen: set[bool | None] = set()

    class Curious(Plugin):
        def saw(self, context: ParseContext) -> None:
            seen.add(context.reasoning_open)

    assert_laws(make_parser("reasoning", "toy", Curious(honest)), soup=8)
    assert seen == {True, False, None}


def test_a_wrong_case_is_reported_side_by_side() -> None:
    wrong = CASES[0].model_copy(update={"expected": CASES[1].expected, "notes": "why it matters"})
    with pytest.raises(Failed) as caught:
        assert_case(wrong, Pipeline(parser(honest)))
    report = str(caught.value)
    for piece in (
        "case calls, one-shot",
        "why it matters",
        "expected",
        "≠ 'a  b (pong) '",
        "ToolCallEnd(index=1)",
    ):
        assert piece in report


def test_a_case_that_fails_at_one_cut_names_cut_delta_state_and_events() -> None:
    with pytest.raises(Failed) as caught:
        assert_case(
            CASES[0].model_copy(update={"output": "a (ping)", "any_of": (), "expected": _one_call()}),
            Pipeline(parser(sees_markers_only_whole)),
        )
    report = str(caught.value)
    for piece in ("streamed, char", "> delta 3 of 9: '('", "state: ", "events so far:", "streamed\n"):
        assert piece in report


def _one_call() -> Any:
    return Case.model_validate(
        {"id": "x", "output": "", "expected": {"content": "a ", "tool_calls": [{"name": "ping", "arguments": {}}]}}
    ).expected


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([ToolCallStart(1, "f")], "should begin call 0"),
        ([ToolCallStart(0, "")], "without a name"),
        ([ToolCallArguments(0, "{}")], "belongs to no open call"),
        ([ToolCallEnd(0)], "belongs to no open call"),
        ([ToolCallStart(0, "f"), ToolCallStart(1, "f")], "before call 0 ended"),
        ([ToolCallStart(0, "f"), ToolCallArguments(0, "[]"), ToolCallEnd(0)], "no JSON object"),
        ([ToolCallStart(0, "f"), ToolCallArguments(0, '{"a": NaN}'), ToolCallEnd(0)], "no JSON object"),
        ([ToolCallStart(0, "f"), ToolCallEnd(0)], "no JSON object"),
        ([ToolCallStart(0, "f"), ToolCallArguments(0, "{}")], "was not ended"),
        ([Reasoning("")], "is empty"),
        ([ToolCallStart(0, "f"), ToolCallArguments(0, "")], "is empty"),
    ],
)
def test_events_that_are_not_well_formed(events: list[Event], says: str) -> None:
    assert says in "\n".join(event_faults(events, complete=True))


def test_an_announced_call_that_is_cut_is_well_formed_where_arguments_are_streamed() -> None:
    assert event_faults([ToolCallStart(0, "f"), ToolCallArguments(0, '{"a')], complete=False) == []
