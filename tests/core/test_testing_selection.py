"""Which parser a name means, and which cases are for it."""

from __future__ import annotations

from typing import Any

import pytest

from derender_core import ParserLoadError, UnknownParserError, load_parser
from derender_core.testing import Case, NoCasesError, cases_for, find_parser, pipeline_for


def case(name: str, **parsers: Any) -> Case:
    return Case.model_validate({"id": name, "parsers": parsers, "output": "", "expected": {}})


CASES = [
    case("tool", tool="hermes"),
    case("both", tool="hermes", reasoning="qwen3"),
    case("reasoning", reasoning="qwen3"),
    case("unknown", tool="not-installed"),
    case("any"),
]


def test_the_slot_is_inferred() -> None:
    assert find_parser("hermes") is load_parser("tool", "hermes")
    assert find_parser("qwen3") is load_parser("reasoning", "qwen3")
    assert find_parser("reasoning:qwen3") is load_parser("reasoning", "qwen3")


def test_a_name_in_both_slots_must_say_which() -> None:
    with pytest.raises(ParserLoadError, match="tool:deepseek_v3 or reasoning:deepseek_v3"):
        find_parser("deepseek_v3")
    assert find_parser("tool:deepseek_v3").slot == "tool"


def test_an_unknown_name_gets_the_nearest_of_either_slot() -> None:
    with pytest.raises(UnknownParserError, match="Did you mean 'hermes'"):
        find_parser("hermse")
    with pytest.raises(UnknownParserError, match="No reasoning parser 'hermes'"):
        find_parser("reasoning:hermes")


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("tool:hermes", ["tool", "both", "any"]),
        ("tool:qwen25", ["tool", "both", "any"]),  # the same parser under another name
        ("reasoning:qwen3", ["both", "reasoning", "any"]),
        ("tool:pythonic", ["any"]),
    ],
)
def test_cases_that_name_the_parser_or_none(name: str, ids: list[str]) -> None:
    assert [one.id for one in cases_for(find_parser(name), CASES)] == ids


def test_all_cases_can_be_asked_for_and_none_is_an_error() -> None:
    pythonic = find_parser("tool:pythonic")
    assert cases_for(pythonic, CASES, every=True) == CASES
    with pytest.raises(NoCasesError, match="its 2 cases are for hermes"):
        cases_for(pythonic, CASES[:2])


def test_the_parser_stands_in_its_own_slot() -> None:
    pythonic, qwen3 = find_parser("tool:pythonic"), find_parser("qwen3")
    pipeline = pipeline_for(pythonic, CASES[1])
    assert (pipeline.tool, pipeline.reasoning) == (pythonic, qwen3)
    pipeline = pipeline_for(qwen3, CASES[0])
    assert (pipeline.tool, pipeline.reasoning) == (load_parser("tool", "hermes"), qwen3)
