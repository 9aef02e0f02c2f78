"""Formats of control tokens: which text is a marker, and which only looks like one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from derender_core import (
    NEED_DATA,
    Delta,
    Event,
    JsonCallMachine,
    MachinePlugin,
    NeedData,
    ParseContext,
    Pipeline,
    Prompt,
    Reasoning,
    Special,
    Text,
    ThinkMachine,
    Tool,
    ToolMachine,
    load_parser,
    make_parser,
    merge_events,
)
from derender_core.json_scan import BAD
from derender_core.testing import all_cuts, feed

TOKENS = ParseContext(has_token_ids=True)
PLAIN = ParseContext()


@dataclass
class Marks(ToolMachine):
    """Shows where markers stand."""

    phase: str = "content"

    trim = False
    control_markers = True
    text_markers = ("<t>", "<t><u>")

    def read_content(self) -> NeedData | None:
        text, marker = self.take_until("<a>", "<t>", "<t><u>")
        self.content(text)
        if marker is None:
            return NEED_DATA
        self.content(f"[{marker.strip('<>')}]")
        return None


MARKS = make_parser("tool", "marks", MachinePlugin(Marks))


@pytest.mark.parametrize(
    ("text", "tokens", "by_text", "by_token"),
    [
        ("x<a>y<a>z", (1,), "x[a]y[a]z", "x[a]y<a>z"),
        ("x<a>y<a>z", (1, 5), "x[a]y[a]z", "x[a]y[a]z"),
        ("x<a>y<t>z", (), "x[a]y[t]z", "x<a>y[t]z"),
        ("<t><u>", (), "[t><u]", "[t><u]"),
        ("<t><x", (), "[t]<x", "[t]<x"),
        ("<t", (), "<t", "<t"),
        ("<a", (), "<a", "<a"),
    ],
)
def test_markers(text: str, tokens: tuple[int, ...], by_text: str, by_token: str) -> None:
    marks = tuple(Special(at, at + 3, 7) for at in tokens)
    for context, expected in ((PLAIN, by_text), (TOKENS, by_token)):
        for cut in all_cuts(Delta(text, marks, final=True), pairs=True):
            assert feed(MARKS, cut, context).events == [Text(expected)], cut.name


def test_nothing_is_held_back_for_markers_that_only_tokens_make() -> None:
    machine: Marks = Marks.load(None)
    assert machine.feed(Delta("so <a"), TOKENS) == [Text("so <a")]
    assert machine.feed(Delta(" <t"), TOKENS) == [Text(" ")]


@dataclass
class Bare(JsonCallMachine):
    """Reads one JSON value."""

    phase: str = "json"

    control_markers = True

    def read_json(self) -> NeedData:
        self.walk_value()
        return NEED_DATA


def test_a_control_token_ends_json_that_is_not_complete() -> None:
    for text in ('{"a": "x<a>', '{"a": <a>', "{<a>"):
        mark = Special(len(text) - 3, len(text), 7)
        machine: Bare = Bare.load(None)
        machine.feed(Delta(text, (mark,)), TOKENS)
        assert machine.scan == BAD
        assert machine.ahead == mark.start
    machine = Bare.load(None)
    machine.feed(Delta('{"a": "x<a>'), TOKENS)
    assert machine.scan != BAD


@dataclass
class TwoSpellings(ThinkMachine):
    """Reasoning with tokens, or with text."""

    opener, closer = "[T]", "[/T]"
    spellings = (("<think>", "</think>"), ("[T]!", "[/T]"))
    text_markers = ("<think>", "</think>")
    control_markers = True
    reopens = True


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("[T]a[/T]b", [Reasoning("a"), Text("b")]),
        ("<think>a</think>b", [Reasoning("a"), Text("b")]),
        ("<think>a[/T]b[T]c</think>d", [Reasoning("a"), Text("b"), Reasoning("c"), Text("d")]),
    ],
)
def test_spellings(text: str, events: list[Event]) -> None:
    parser = make_parser("reasoning", "two", MachinePlugin(TwoSpellings))
    for cut in all_cuts(Delta(text, final=True), pairs=True):
        assert feed(parser, cut, PLAIN).events == events, cut.name
    prompts = {"<think>": True, "[T]": True, "[T]x</think>": False, "<think>x[/T]": False, "x": None}
    assert {text: TwoSpellings.opens_reasoning(Prompt(text), PLAIN) for text in prompts} == prompts


COMBINED = [("openai", "openai_gptoss"), ("kimi_k3", "kimi_k3")]


@pytest.mark.parametrize(("tool", "reasoning"), COMBINED)
def test_one_machine_in_both_slots(tool: str, reasoning: str) -> None:
    """What the reasoning slot passes on, and what it unwraps itself."""
    output = {
        "openai": "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>so<|return|>",
        "kimi_k3": "<|open|>think<|sep|>why<|close|>think<|sep|><|open|>response<|sep|>so<|close|>response<|sep|>",
    }[tool]
    answer = output[output.index("<|start|>" if tool == "openai" else "<|open|>response") :]
    delta = Delta(output, final=True)
    parsers = load_parser("tool", tool), load_parser("reasoning", reasoning)
    offered = ParseContext(tools=(Tool("ping"),), tool_call_openers=("<x>",))
    assert merge_events(parsers[1].parse_delta(None, delta, offered).events) == [Reasoning("why"), Text(answer)]
    assert merge_events(parsers[1].parse_delta(None, delta, PLAIN).events) == [Reasoning("why"), Text("so")]
    assert merge_events(parsers[0].parse_delta(None, delta, offered).events) == [Reasoning("why"), Text("so")]
    spans = parsers[1].parse_delta(None, delta, PLAIN).spans
    assert sum(count for _, count in spans) == len(output)
    assert sum(count for inside, count in spans if inside) == len("why")
    assert Pipeline(*parsers).check_state({"r": {"phase": "nowhere"}}) is not None
