"""The two slots in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from derender_core import (
    NEED_DATA,
    Delta,
    Event,
    MachinePlugin,
    ParseContext,
    Parser,
    Pipeline,
    Prompt,
    Reasoning,
    Special,
    Step,
    Text,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolMachine,
    fold_message,
    hookimpl,
    load_parser,
    make_parser,
    merge_events,
)

TOOLS = (Tool("f"),)
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
MALFORMED = '<tool_call>{"name": "f", "arguments": {}!}</tool_call>'
CALLED = [ToolCallStart(0, "f"), ToolCallArguments(0, "{}"), ToolCallEnd(0)]


@pytest.fixture(scope="module")
def tool() -> Parser:
    return load_parser("tool", "hermes")


@pytest.fixture(scope="module")
def reasoning() -> Parser:
    return load_parser("reasoning", "qwen3")


def one(pipeline: Pipeline, text: str, **context: Any) -> list[Event]:
    opened = pipeline.open(ParseContext(**context), None)
    return merge_events(pipeline.extract(text, opened))


def test_events_keep_their_order(tool: Parser, reasoning: Parser) -> None:
    pipeline = Pipeline(tool, reasoning)
    output = f"Hm\n</think>\n\nSo {CALL} and"
    context = pipeline.open(ParseContext(tools=TOOLS), None)
    assert merge_events(pipeline.extract(output, context)) == [Reasoning("Hm"), Text("So"), *CALLED, Text("  and")]


def test_each_slot_alone(tool: Parser, reasoning: Parser) -> None:
    output = f"Hm</think>{CALL}"
    assert one(Pipeline(), output, tools=TOOLS) == [Text(output)]
    assert one(Pipeline(reasoning=reasoning), output, tools=TOOLS) == [Reasoning("Hm"), Text(CALL)]
    assert one(Pipeline(tool=tool), output, tools=TOOLS) == [Text("Hm</think>"), *CALLED]
    assert one(Pipeline(tool, reasoning), output, tools=()) == [Reasoning("Hm"), Text(CALL)]


def test_a_whole_output_comes_whole_whatever_the_context_says(tool: Parser) -> None:
    context = ParseContext(tools=TOOLS, stream_tool_calls="arguments")
    cut = '<tool_call>{"name": "f", "arguments": {"a'
    assert Pipeline(tool).extract(cut, context) == []
    assert Pipeline(tool).extract(Delta(cut), context) == []


@pytest.mark.parametrize("mode", ["whole", "arguments"])
def test_none_drops_calls_and_keeps_text(tool: Parser, mode: Any) -> None:
    pipeline = Pipeline(tool)
    context = ParseContext(tools=TOOLS, tool_choice="none", stream_tool_calls=mode)
    for output, content in [
        (f"Ok. {CALL}", "Ok."),
        (CALL, None),
        (f"a {MALFORMED}", f"a {MALFORMED}"),
    ]:
        step = pipeline.parse_delta(None, Delta(output, final=True, finish_reason="stop"), context)
        assert fold_message(step.events).content == content
        assert all(isinstance(event, Text) for event in step.events)


def test_open_fills_in_what_the_parsers_tell_each_other(tool: Parser, reasoning: Parser) -> None:
    pipeline = Pipeline(tool, reasoning)
    opened = pipeline.open(ParseContext(tools=TOOLS), Prompt("<|im_start|>assistant\n<think>\n"))
    assert (opened.reasoning_open, opened.tool_call_openers) == (True, ("<tool_call>",))
    assert pipeline.open(ParseContext(), Prompt("<|im_start|>assistant\n")).reasoning_open is None
    assert pipeline.open(ParseContext(), None).tool_call_openers == ()
    given = ParseContext(reasoning_open=False)
    assert pipeline.open(given, Prompt("<think>")).reasoning_open is False
    assert Pipeline(tool).open(ParseContext(tools=TOOLS), Prompt("<think>")).reasoning_open is None


def test_special_tokens_are_those_of_both_slots(tool: Parser, reasoning: Parser) -> None:
    both = Pipeline(tool, reasoning)
    think, call = {"<think>", "</think>"}, {"<tool_call>", "</tool_call>"}
    assert set(both.special_tokens(ParseContext(tools=TOOLS))) == think | call
    assert set(both.special_tokens(ParseContext())) == think
    assert set(Pipeline(tool).special_tokens(ParseContext(tools=TOOLS))) == call
    assert Pipeline().special_tokens(ParseContext(tools=TOOLS)) == ()


class Marks:
    """Answers with the special tokens that it is given, and where."""

    @hookimpl
    def derender_parse_delta(self, delta: Delta) -> Step:
        marks = tuple(Text(f"{delta.text[mark.start : mark.end]}={mark.token_id};") for mark in delta.specials)
        return Step({}, marks)


@pytest.mark.parametrize("choice", ["auto", "required", "function:f"])
def test_special_tokens_reach_the_tool_parser_in_their_places(reasoning: Parser, choice: str) -> None:
    pipeline = Pipeline(make_parser("tool", "marks", Marks()), reasoning)
    text = "<think>\nHm\n</think>\n\nab[X]cd[Y]"
    specials = (Special(0, 7, 1), Special(text.index("[X]"), text.index("cd"), 2), Special(len(text) - 3, len(text), 3))
    context = pipeline.open(ParseContext(tools=TOOLS, tool_choice=choice), None)
    assert merge_events(pipeline.extract(Delta(text, specials), context)) == [Reasoning("Hm"), Text("[X]=2;[Y]=3;")]


def test_special_tokens_pass_on_where_there_is_no_tool_parser(reasoning: Parser) -> None:
    text = "<think>a</think>b[X]"
    events = Pipeline(reasoning=reasoning).extract(Delta(text, (Special(17, 20, 9),)), ParseContext())
    assert [event.specials for event in events if isinstance(event, Text)] == [(Special(1, 4, 9),)]


class Whole:
    """Parses whole outputs by itself."""

    @hookimpl
    def derender_parse_delta(self, state: Any, delta: Delta) -> Step:  # noqa: ARG002
        return Step({"n": (state or {}).get("n", 0) + 1}, (Text("delta"),))

    @hookimpl
    def derender_extract(self, output: Delta, context: ParseContext) -> list[Event]:
        assert output.final
        assert context.stream_tool_calls == "whole"
        return [Text("extract")]


def test_a_parsers_own_extract_is_used_for_whole_outputs_only() -> None:
    for slot in ("tool", "reasoning"):
        parser = make_parser(slot, "whole", Whole())  # type: ignore[arg-type]
        pipeline = Pipeline(**{slot: parser})
        context = ParseContext(tools=TOOLS, stream_tool_calls="arguments")
        assert pipeline.extract("x", context) == [Text("extract")]
        assert pipeline.parse_delta(None, Delta("x", final=True), context).events == (Text("extract"),)
        first = pipeline.parse_delta(None, Delta("x"), context)
        assert first.events == (Text("delta"),)
        assert pipeline.parse_delta(first.state, Delta("x", final=True), context).events == (Text("delta"),)


@dataclass
class Verbatim(ToolMachine):
    """Text, with what the machine knows at its end."""

    phase: str = "content"

    trim = False

    def read_content(self) -> Any:
        self.content(self.take_rest())
        if self.final:
            self.emit(Text(f"|{self.finish_reason}"))
        return NEED_DATA


def test_the_end_reaches_the_tool_parser_though_no_text_is_left(reasoning: Parser) -> None:
    pipeline = Pipeline(make_parser("tool", "verbatim", MachinePlugin(Verbatim)), reasoning)
    context = ParseContext(tools=TOOLS, reasoning_open=True)
    step = pipeline.parse_delta(None, Delta("Hm"), context)
    step = pipeline.parse_delta(step.state, Delta("", final=True, finish_reason="length"), context)
    assert merge_events(step.events) == [Text("|length")]


def test_state_of_a_slot_that_got_nothing_stays(tool: Parser, reasoning: Parser) -> None:
    pipeline = Pipeline(tool, reasoning)
    context = pipeline.open(ParseContext(tools=TOOLS), None)
    first = pipeline.parse_delta(None, Delta("a</think>b <tool_call>{"), context)
    second = pipeline.parse_delta(first.state, Delta("</thi"), context)  # held by the reasoning parser
    assert second.state["t"] == first.state["t"]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"z": {}}, "'z'"),
        ({"r": {}}, "'r'"),
        ({"t": []}, "'t' must be an object"),
        ({"t": {"phase": "x"}}, "hermes"),
        ({"f": {"phase": "x"}}, "forced"),
    ],
)
def test_says_which_part_of_a_state_is_wrong(tool: Parser, state: Any, word: str) -> None:
    assert word in (Pipeline(tool).check_state(state) or "")


def test_accepts_its_own_states(tool: Parser, reasoning: Parser) -> None:
    pipeline = Pipeline(tool, reasoning)
    assert pipeline.check_state({}) is None
    assert pipeline.check_state({"r": {"phase": "content"}, "t": {"calls": 1}, "f": {"phase": "native"}}) is None
