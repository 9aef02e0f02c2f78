"""Reasoning between two markers, in each way that families differ."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    MachinePlugin,
    ParseContext,
    Prompt,
    Reasoning,
    State,
    Text,
    ThinkMachine,
    Tool,
    make_parser,
    merge_events,
)

OPENERS = ("<tool_call>",)
TOOLS = (Tool("f"),)
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


@dataclass
class Strips(ThinkMachine):
    """Newlines around are framing; later openers are literal."""

    noise = ("<eos>",)
    ends_message = ("<user>",)


@dataclass
class Verbatim(ThinkMachine):
    """All is verbatim, and openers reopen."""

    strip_newlines = False
    reopens = True


@dataclass
class Plain(ThinkMachine):
    """Not looked at when closed."""

    plain_when_closed = True


def parse(
    machine: type[ThinkMachine],
    output: str,
    *,
    open_: bool | None = True,
    reason: str | None = "stop",
    tools: bool = False,
) -> tuple[str, str]:
    """Reasoning and answer, the same at every cut; and every character was counted."""
    parser = make_parser("reasoning", machine.__name__, MachinePlugin(machine))
    context = ParseContext(
        tools=TOOLS if tools else (), tool_call_openers=OPENERS if tools else (), reasoning_open=open_
    )
    rng = random.Random(output)
    cuts = [[], list(range(1, len(output))), *([at] for at in range(len(output) + 1))]
    cuts += [sorted(rng.sample(range(len(output)), len(output) // 3)) for _ in range(3)]
    results = []
    for cut in cuts:
        edges = [0, *cut, len(output)]
        state: State | None = None
        events: list[Event] = []
        counted = 0
        for at in range(len(edges) - 1):
            final = at == len(edges) - 2
            delta = Delta(output[edges[at] : edges[at + 1]], final=final, finish_reason=reason if final else None)
            step = parser.parse_delta(state, delta, context)
            events += step.events
            counted += sum(count for _, count in step.spans)
            state = json.loads(json.dumps(step.state))
            assert parser.check_state(state or {}) is None
        assert counted == len(output)
        results.append(merge_events(events))
    assert all(result == results[0] for result in results), (output, results)
    joined = ["".join(event.text for event in results[0] if isinstance(event, kind)) for kind in (Reasoning, Text)]
    return joined[0], joined[1]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Hm.\n</think>\n\nYes.", ("Hm.", "Yes.")),
        ("\n\nHm\n\nso \n</think> Yes.", ("Hm\n\nso ", " Yes.")),
        ("<think>\nHm</think>Yes", ("Hm", "Yes")),
        (" \n<think>Hm</think>Yes", ("Hm", "Yes")),
        ("a <think> b</think>Yes", ("a <think> b", "Yes")),
        ("Hm", ("Hm", "")),
        ("Hm\n\n", ("Hm", "")),
        ("Hm </thi", ("Hm </thi", "")),
        (" \n </think>\n", ("", "")),
        ("", ("", "")),
        ("</think>Yes </think>so", ("", "Yes so")),
        ("a</think>put <think> and </think> around", ("a", "put <think> and </think> around")),
        ("a</think>\n\n\n x\n", ("a", " x\n")),
        ("a<eos>b</think>c<eos>d", ("ab", "cd")),
        ("a<user>b</think>c", ("a", "")),
        ("a</think>b<user>c", ("a", "b")),
    ],
)
def test_open_and_newlines_are_framing(output: str, expected: tuple[str, str]) -> None:
    assert parse(Strips, output) == expected


@pytest.mark.parametrize("open_", [False, None])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Yes", ("", "Yes")),
        (" \nYes\n", ("", " \nYes\n")),
        ("<think>\nHm\n</think>\n\nYes", ("Hm", "Yes")),
        (" <think>Hm", ("Hm", "")),
        ("Yes <think>no</think>", ("", "Yes <think>no</think>")),
        ("Yes</think> so", ("", "Yes so")),
        ("<thi", ("", "<thi")),
        (" ", ("", " ")),
    ],
)
def test_self_opening(output: str, expected: tuple[str, str], open_: bool | None) -> None:
    assert parse(Strips, output, open_=open_) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Hm. \n</think>\n Yes", ("Hm. \n", "\n Yes")),
        ("\nHm \n", ("\nHm \n", "")),
        ("\n</think>x", ("", "x")),
        ("a</think>b<think>c</think>d", ("ac", "bd")),
        ("a</think>b<think>c", ("ac", "b")),
    ],
)
def test_verbatim_and_reopening(output: str, expected: tuple[str, str]) -> None:
    assert parse(Verbatim, output) == expected


def test_plain_when_closed() -> None:
    assert parse(Plain, "<think>a</think>b", open_=False) == ("", "<think>a</think>b")
    assert parse(Plain, "a</think>b", open_=True) == ("a", "b")


STRING = '<tool_call>{"name": "f", "arguments": {"t": "</think>"}}</tool_call>'


@pytest.mark.parametrize(
    ("output", "reason", "expected"),
    [
        # An explicit closer wins.
        (f"a {CALL} b\n</think>\n\nc", "stop", (f"a {CALL} b", "c")),
        (f"a {CALL} {CALL}</think>{CALL}", "stop", (f"a {CALL} {CALL}", CALL)),
        ("a <tool_call> b</think>c", "stop", ("a <tool_call> b", "c")),
        # Without one the opener ended the reasoning.
        (f"a\n{CALL} b", "stop", ("a", f"{CALL} b")),
        ('a\n<tool_call>{"na', "length", ("a", '<tool_call>{"na')),
        (f"a\n{CALL}<think>b", "stop", ("a", f"{CALL}<think>b")),
        # In a string of the call a closer is data,
        (f"a {STRING}", "stop", ("a ", STRING)),
        (f"a {STRING} b</think>c", "stop", (f"a {STRING} b", "c")),
        # unless the string never ends,
        ('a <tool_call>{"name": "f b</think>c', "stop", ('a <tool_call>{"name": "f b', "c")),
        (f'a {STRING} <tool_call>{{"x b</think>c', "stop", (f'a {STRING} <tool_call>{{"x b', "c")),
        ('a <tool_call>{"name": "f b</think>c', "length", ("a ", '<tool_call>{"name": "f b</think>c')),
        # or what it stands in is no JSON.
        ('a <tool_call>{"name": "f b</think>\n\nc "d" e', "stop", ('a <tool_call>{"name": "f b', 'c "d" e')),
        ('a <tool_call>{"name": "f b</think>c "d" e', "length", ('a <tool_call>{"name": "f b', 'c "d" e')),
    ],
)
def test_calls_in_open_reasoning(output: str, reason: str, expected: tuple[str, str]) -> None:
    assert parse(Strips, output, reason=reason, tools=True) == expected


def test_strings_of_json_in_the_answer_are_not_looked_into() -> None:
    assert parse(Strips, f"a</think>{STRING} </think>b", tools=True) == ("a", f"{STRING} b")
    assert parse(Verbatim, 'a</think>{"t": "<think>b</think>"} c', tools=True) == ("a", '{"t": "<think>b</think>"} c')
    assert parse(Strips, "a</think>[see] {this </think>b", tools=True) == ("a", "[see] {this b")


@pytest.mark.parametrize(
    ("prompt", "kwargs", "expected"),
    [
        ("<|im_start|>user\n</think><|im_start|>assistant\n<think>\n", {}, True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", {"think": True}, False),
        ("<|im_start|>user\n<think><|im_start|>assistant\n", {"think": False}, "silent"),
        ("", {}, "silent"),
        (None, {}, "unknown"),
        (None, {"think": True}, "unknown"),
        (None, {"think": False}, False),
        (None, {"think": None, "other": False}, False),
        (None, {"think": True, "other": False}, "unknown"),
    ],
)
def test_where_the_output_begins(prompt: str | None, kwargs: dict[str, Any], expected: Any) -> None:
    @dataclass
    class Asked(ThinkMachine):
        when_prompt_is_silent = "silent"  # type: ignore[assignment]
        when_prompt_is_unknown = "unknown"  # type: ignore[assignment]
        switches = ("think", "other")

    given = Prompt(prompt) if prompt is not None else None
    assert Asked.opens_reasoning(given, ParseContext(template_kwargs=kwargs)) == expected


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"ahead": 3, "buffer": "ab"}, "'ahead'"),
        ({"begin": 3, "buffer": "ab"}, "'begin'"),
        ({"scan": "|,"}, "'scan'"),
        ({"phase": "json"}, "'scan'"),
    ],
)
def test_check_says_what_is_wrong(state: State, word: str) -> None:
    assert word in (Strips.check(state) or "")
