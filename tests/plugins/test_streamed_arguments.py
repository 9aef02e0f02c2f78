"""With ``stream_tool_calls="arguments"`` a long argument can be watched being written."""

import json

import pytest

from derender_core import ToolCallArguments, ToolCallStart
from derender_core.testing import Case, cut_char, run_case

TEXT = "It was a dark and stormy night; the rain fell in torrents. " * 40
ARGUMENTS = json.dumps({"text": TEXT, "lines": [1, 2, {"n": None}]})
OBJECT = f'{{"name": "note", "arguments": {ARGUMENTS}}}'

OUTPUTS = {
    "hermes": f"<tool_call>\n{OBJECT}\n</tool_call>",
    "deepseek_v3": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{ARGUMENTS}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "llama3_json": f'{{"name": "note", "parameters": {ARGUMENTS}}}',
    "llama4_pythonic": f'{{"name": "note", "parameters": {ARGUMENTS}}}',
}


def note(parser: str, output: str, **keys: object) -> Case:
    expected = {"tool_calls": [{"name": "note", "arguments": json.loads(ARGUMENTS)}]}
    return Case.model_validate(
        {"id": parser, "parsers": {"tool": parser}, "tools": [{"name": "note"}], "output": output, "expected": expected}
        | keys
    )


@pytest.mark.parametrize("parser", OUTPUTS)
def test_arguments_come_as_they_are_written(parser: str) -> None:
    case = note(parser, OUTPUTS[parser])
    trace = run_case(case, cut_char(case.whole), mode="arguments")
    arrived = ""
    late = 0
    for number, step in enumerate(trace.steps, 1):
        arrived += "".join(event.fragment for event in step.events if isinstance(event, ToolCallArguments))
        written = case.text[:number].partition(ARGUMENTS[:9])[2]
        late = max(late, min(len(written) + 9, len(ARGUMENTS)) - len(arrived) if written else 0)
    assert arrived == ARGUMENTS
    assert late <= 2
    assert trace.largest_state < 400


@pytest.mark.parametrize("parser", OUTPUTS)
def test_a_call_is_announced_once_its_arguments_begin(parser: str) -> None:
    case = note(parser, OUTPUTS[parser])
    trace = run_case(case, cut_char(case.whole), mode="arguments")
    starts = [n for n, step in enumerate(trace.steps, 1) if any(isinstance(one, ToolCallStart) for one in step.events)]
    assert len(starts) == 1
    assert starts[0] <= case.text.index(ARGUMENTS) + 2


@pytest.mark.parametrize("parser", OUTPUTS)
def test_in_whole_mode_nothing_comes_before_the_call_is_complete(parser: str) -> None:
    case = note(parser, OUTPUTS[parser])
    trace = run_case(case, cut_char(case.whole), mode="whole")
    begun = [number for number, step in enumerate(trace.steps) if step.events]
    assert begun[0] >= case.text.index(ARGUMENTS) + len(ARGUMENTS) - 1
    assert len(begun) == 1


def test_arguments_of_a_named_function_come_as_they_are_written() -> None:
    case = note("hermes", ARGUMENTS, tool_choice="function:note")
    trace = run_case(case, cut_char(case.whole), mode="arguments")
    assert sum(isinstance(event, ToolCallArguments) for step in trace.steps for event in step.events) > 1000
