"""Formats with lists of calls, and with tags around the answer: states from outside, and what parsers of JSON share."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from derender_core import Delta, ParseContext, Parser, State, Tool, ToolCallArguments, load_parser
from derender_core.testing import Case, cut_char, load_cases, run_case

PARSERS = [
    ("tool", "apertus"),
    ("tool", "granite"),
    ("tool", "granite-20b-fc"),
    ("tool", "internlm"),
    ("tool", "jamba"),
    ("tool", "lfm2"),
    ("tool", "olmo3"),
    ("tool", "phi4_mini_json"),
    ("tool", "xlam"),
    ("reasoning", "ernie45"),
    ("reasoning", "granite"),
]
CASES = load_cases(Path(__file__).parent.parent / "data")
TEXTS = ("", "ring(", ")", "]", "}", ",", '"', '{"name": "ring", "arguments": {}}', "\n\n", "x", "[", "<", "```")


def states_of(parser: Parser, name: str, context: ParseContext) -> list[State]:
    """States in which a stream of the parser's own cases can be."""
    states = []
    for case in CASES:
        if getattr(case.parsers, parser.slot) == name:
            state: State | None = None
            for character in case.text:
                state = parser.parse_delta(state, Delta(character), context).state
                states.append(state)
    return states


def tamper(rng: random.Random, state: State, states: list[State]) -> State:
    """A state with some fields changed, or those of another one."""
    state = dict(state)
    for _ in range(rng.randint(1, 3)):
        key = rng.choice(sorted({key for one in rng.sample(states, 5) for key in one}) or ["phase"])
        other: Any = rng.choice(states).get(key)
        if isinstance(other, bool) or key not in state or rng.random() < 0.5:
            value = not other if isinstance(other, bool) else other
        else:
            value = rng.randint(0, 40) if isinstance(state[key], int) else rng.choice(TEXTS)
        if value is not None:
            state[key] = value
    return state


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize(("slot", "name"), PARSERS)
def test_states_that_are_accepted_can_go_on(slot: Any, name: str, mode: Any) -> None:
    rng = random.Random(f"{slot} {name} {mode}")
    parser = load_parser(slot, name)
    context = ParseContext(tools=(Tool("ring"), Tool("plan_route")), stream_tool_calls=mode)
    states = states_of(parser, name, context)
    accepted = 0
    for _ in range(3000):
        state = tamper(rng, rng.choice(states), states)
        if parser.check_state(state) is not None:
            continue
        accepted += 1
        try:
            step = parser.parse_delta(state, Delta(rng.choice(TEXTS)), context)
            parser.parse_delta(step.state, Delta(rng.choice(TEXTS), final=True, finish_reason="stop"), context)
        except Exception as error:
            raise AssertionError(f"accepted, then {error!r}: {json.dumps(state)}") from error
    assert accepted > 300


LONG = json.dumps({"note": "It was a dark and stormy night. " * 40})
STREAMED = {
    "apertus": f'<|tools_prefix|>[{{"ring": {LONG}}}]<|tools_suffix|>',
    "deepseek_v31": f"<｜tool▁call▁begin｜>ring<｜tool▁sep｜>{LONG}<｜tool▁call▁end｜>",
    "granite": f'<tool_call>[{{"name": "ring", "arguments": {LONG}}}]',
    "internlm": f'<|action_start|><|plugin|>{{"name": "ring", "parameters": {LONG}}}<|action_end|>',
    "jamba": f'<tool_calls>[{{"name": "ring", "arguments": {LONG}}}]</tool_calls>',
    "phi4_mini_json": f'functools[{{"name": "ring", "arguments": {LONG}}}]',
    "xlam": f'[{{"name": "ring", "arguments": {LONG}}}]',
}


@pytest.mark.parametrize("name", STREAMED)
def test_arguments_come_as_they_are_written(name: str) -> None:
    case = Case.model_validate(
        {
            "id": name,
            "parsers": {"tool": name},
            "tools": [{"name": "ring"}],
            "output": STREAMED[name],
            "expected": {"tool_calls": [{"name": "ring", "arguments": json.loads(LONG)}]},
        }
    )
    trace = run_case(case, cut_char(case.whole), mode="arguments")
    sent = 0
    for number, step in enumerate(trace.steps, 1):
        sent += sum(len(event.fragment) for event in step.events if isinstance(event, ToolCallArguments))
        written = number - case.text.index(LONG)
        assert min(written, len(LONG)) - sent <= 2
    assert sent == len(LONG)
