"""The work that parsing takes: it grows with the output, never faster. Characters and calls are counted, not time.

While a call is held in mode "whole" each delta costs as much as is held, since the state goes through JSON anyway; what
is counted here is what the machines look at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from derender_core import (
    Delta,
    Machine,
    ParseContext,
    Pipeline,
    Tool,
    fold_message,
    json_call,
    load_parser,
    think,
    think_answer,
)

TOOLS = (Tool("ping", {"type": "object"}),)
SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
FENCED = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>'
PING = '{"name": "ping", "arguments": {}} '
BAD = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{bad}\n```<｜tool▁call▁end｜>"


class Work:
    """Counts characters looked at and functions called while it is active."""

    def __init__(self) -> None:
        self.characters = self.calls = 0

    def profile(self, _frame: Any, event: str, _argument: Any) -> None:
        self.calls += event in ("call", "c_call")

    def peek(self, peek: Callable[..., str]) -> Callable[..., str]:
        def counted(machine: Machine, count: int, offset: int = 0) -> str:
            text = peek(machine, count, offset)
            self.characters += len(text)
            return text

        return counted

    def take(self, take: Callable[..., str]) -> Callable[..., str]:
        def counted(machine: Machine, count: int) -> str:
            text = take(machine, count)
            self.characters += len(text)
            return text

        return counted

    def find(self, find: Callable[..., Any]) -> Callable[..., Any]:
        def counted(machine: Machine, markers: tuple[str, ...], offset: int = 0) -> Any:
            at, marker = find(machine, markers, offset)
            self.characters += (at if marker else machine.waiting) - offset
            return at, marker

        return counted

    def scan(self, scan: Callable[..., Any]) -> Callable[..., Any]:
        def counted(text: str, at: int, state: str, stop: int = 0, out: list[str] | None = None) -> Any:
            after, state = scan(text, at, state, stop, out)
            self.characters += after - at
            return after, state

        return counted


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    counter = Work()
    for name in ("peek", "take", "find"):
        monkeypatch.setattr(Machine, name, getattr(counter, name)(getattr(Machine, name)))
    for module in (json_call, think, think_answer):
        monkeypatch.setattr(module, "scan_json", counter.scan(module.scan_json))
    yield counter
    sys.setprofile(None)


def hermes(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "ping", "arguments": {arguments}}}\n</tool_call>'


OUTPUTS: dict[str, tuple[str, str, bool, Callable[[int], str]]] = {
    "long argument": ("hermes", "qwen3", False, lambda n: hermes('{"a": "' + "word " * (10 * n) + '"}')),
    "escaped argument": ("hermes", "qwen3", False, lambda n: hermes('{"a": "' + "\\n\x01é" * (5 * n) + '"}')),
    "tiny calls": ("hermes", "qwen3", False, lambda n: hermes("{}") * n),
    "tiny calls in front of a marker": ("hermes", "qwen3", False, lambda n: hermes("{}") * n + "</think>"),
    "tiny calls with text between": ("hermes", "qwen3", False, lambda n: f"So\n{hermes('{}')}\n" * n),
    "tiny calls in one tag": (
        "hermes", "qwen3", False, lambda n: "<tool_call>" + PING * n + "</tool_call>",
    ),
    "a list of tiny calls": (
        "hermes", "qwen3", False, lambda n: "<tool_call>[" + ", ".join([PING] * n) + "]</tool_call>",
    ),
    "many arguments": (
        "hermes", "qwen3", False, lambda n: hermes("{" + ", ".join(f'"k{i}": {i}' for i in range(n)) + "}"),
    ),
    "brackets": ("hermes", "qwen3", False, lambda n: "< " * n),
    "half openers": ("hermes", "qwen3", False, lambda n: "<tool_call" * n),
    "openers": ("hermes", "qwen3", False, lambda n: "<tool_call>" * n),
    "closers": ("hermes", "qwen3", False, lambda n: "</tool_call></think>" * n),
    "calls that never close": ("hermes", "qwen3", False, lambda n: '<tool_call>{"name": "' * n),
    "strings that never close": ("hermes", "qwen3", False, lambda n: '<tool_call>{"a</tool_call>' * n),
    "bad calls": ("hermes", "qwen3", False, lambda n: "<tool_call>{bad}</tool_call>" * n),
    "open braces in the answer": ("hermes", "qwen3", False, lambda n: '{"a ' * n + "[" * n),
    "a call in open reasoning": ("hermes", "qwen3", True, lambda n: "Hm " + hermes('{"a": "' + "w " * (10 * n) + '"}')),
    "calls in open reasoning": ("hermes", "qwen3", True, lambda n: "Hm " + hermes('{"a": "</think>"}') * n),
    "calls quoted in reasoning": ("hermes", "qwen3", True, lambda n: hermes("{}") * n + "</think>"),
    "broken calls in reasoning": ("hermes", "qwen3", True, lambda n: '<tool_call>{"a [' * n),
    "openers in open reasoning": ("hermes", "qwen3", True, lambda n: "<tool_call><think>" * n),
    "fenced calls": ("deepseek_v3", "deepseek_r1", False, lambda n: f"{SECTION}{FENCED * n}{SECTION_END}"),
    "bad fenced calls": ("deepseek_v3", "deepseek_r1", False, lambda n: f"{SECTION}{BAD * n}{SECTION_END}"),
    "sections": ("deepseek_v3", "deepseek_r1", True, lambda n: f"{SECTION}{FENCED}{SECTION_END}" * n),
    "section openers": ("deepseek_v3", "deepseek_r1", True, lambda n: SECTION * n),
    "call openers": ("deepseek_v3", "deepseek_r1", True, lambda n: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" * n),
    "lists": ("jamba", "qwen3", False, lambda n: f"<tool_calls>[{PING}]</tool_calls> " * n),
    "a list": ("jamba", "qwen3", False, lambda n: "<tool_calls>[" + ", ".join([PING] * n) + "]</tool_calls>"),
    "a list of no calls": ("jamba", "qwen3", False, lambda n: "<tool_calls>[" + ", ".join(['{"x": 1}'] * n) + "]"),
    "lists in strings": ("jamba", "qwen3", False, lambda n: '<tool_calls>[{"a": "</tool_calls>' * n),
    "Python calls": ("olmo3", "olmo3", False, lambda n: "<function_calls>" + "ping(a=1)\n" * n + "</function_calls>"),
    "a list of Python calls": ("lfm2", "qwen3", False, lambda n: "<|tool_call_start|>[" + "ping(a=1), " * n + "]"),
    "bad Python calls": ("olmo3", "olmo3", False, lambda n: "<function_calls>" + "ping(1)\n" * n),
    "open Python calls": ("olmo3", "olmo3", False, lambda n: "<function_calls>ping(a='" * n),
    "Python calls without a marker": ("granite", "granite", False, lambda n: "ping(a=1)\n" * n),
    "newlines in answer tags": ("granite", "granite", False, lambda n: "<response>" + "\n\na" * n + "\n" * n),
    "fences": ("xlam", "deepseek_r1", False, lambda n: "```json\n[1]\n```\n" * n),
    "thoughts without a reasoning parser": ("xlam", "granite", False, lambda n: "</think> [" * n),
    "words": ("phi4_mini_json", "qwen3", False, lambda n: "functools \n" * n),
}  # fmt: skip


def measure(work: Work, name: str, size: int, mode: Any, pieces: int) -> tuple[int, int, int]:
    tool, reasoning, open_, make = OUTPUTS[name]
    output = make(size)
    pipeline = Pipeline(load_parser("tool", tool), load_parser("reasoning", reasoning))
    context = ParseContext(tools=TOOLS, reasoning_open=open_, stream_tool_calls=mode)
    context = pipeline.resume(context)
    step = max(1, len(output) // pieces)
    deltas = [Delta(output[at : at + step]) for at in range(0, len(output), step)]
    deltas[-1] = Delta(deltas[-1].text, final=True, finish_reason="stop")
    state = None
    work.characters = work.calls = 0
    sys.setprofile(work.profile)
    for delta in deltas:
        state = pipeline.parse_delta(state, delta, context).state
    sys.setprofile(None)
    return len(output), work.characters, work.calls


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_one_delta_costs_what_its_text_does(work: Work, name: str, mode: str) -> None:
    measured = [measure(work, name, size, mode, 1) for size in (50, 100, 200, 400)]
    for (length, characters, calls), (length2, characters2, calls2) in pairwise(measured):
        growth = length2 / length
        assert characters2 <= 1.05 * growth * characters + 200
        assert calls2 <= 1.05 * growth * calls + 200
    length, characters, _ = measured[-1]
    assert characters <= 12 * length


@pytest.mark.parametrize("name", OUTPUTS)
def test_many_deltas_look_at_each_character_a_few_times(work: Work, name: str) -> None:
    measured = [measure(work, name, size, "arguments", size) for size in (50, 100, 200)]
    for (length, characters, calls), (length2, characters2, calls2) in pairwise(measured):
        growth = length2 / length
        assert characters2 <= 1.1 * growth * characters + 500
        assert calls2 <= 1.1 * growth * calls + 500


def test_large_outputs_are_parsed() -> None:
    """As large as an engine would write, in one delta: these end only because the work is linear."""
    pipeline = Pipeline(load_parser("tool", "hermes"), load_parser("reasoning", "qwen3"))
    context = pipeline.resume(ParseContext(tools=TOOLS, reasoning_open=True))
    long = '{"a": "' + "x" * 1_000_000 + '"}'
    message = fold_message(pipeline.extract(f"Hm\n</think>\n\n{hermes(long)}", context))
    assert message.tool_calls[0].arguments == long
    held = fold_message(pipeline.extract(f"Hm {hermes(long)}", context))
    assert (held.reasoning, held.tool_calls[0].arguments) == ("Hm ", long)
    many = fold_message(pipeline.extract("</think>" + hermes("{}") * 10_000, context))
    assert len(many.tool_calls) == 10_000
    brackets = "</think>" + "<" * 100_000
    assert fold_message(pipeline.extract(brackets, context)).content == "<" * 100_000


@pytest.mark.parametrize("output", ["bad fenced calls", "a list of no calls"])
def test_what_a_delta_keeps_is_joined_once(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, _, _, text = OUTPUTS[output]
    joined = []
    text_of = Machine.text_of

    def counted(machine: Machine, field: str) -> str:
        joined.append(len(text_of(machine, field)))
        return text_of(machine, field)

    monkeypatch.setattr(Machine, "text_of", counted)
    delta = Delta(text(200), final=True, finish_reason="stop")
    load_parser("tool", tool).parse_delta(None, delta, ParseContext(tools=TOOLS))
    assert 0 < sum(joined) <= 3 * len(delta.text)
