"""Every installed parser keeps the laws, over its golden cases and over marker soup."""

from pathlib import Path

import pytest

from derender_core import Delta, ParseContext, Pipeline, Prompt, Tool, list_parsers, load_parser
from derender_core.testing import (
    LAWS,
    Case,
    Law,
    Sample,
    assert_laws,
    assert_samples,
    find_markers,
    load_cases,
    marker_soup,
)

CASES = load_cases(Path(__file__).parent / "data")
PARSERS = [pytest.param(info.slot, info.name, id=f"{info.slot}-{info.name}") for info in list_parsers()]


def cases_of(slot: str, name: str) -> list[Case]:
    """The golden cases of a parser; an alias gets those of the parser that it stands for."""
    plugin = load_parser(slot, name).plugin
    infos = [info for info in list_parsers() if info.slot == slot and not info.error]
    names = [info.name for info in infos if load_parser(slot, info.name).plugin is plugin]
    return [case for case in CASES if getattr(case.parsers, slot) in names]


def test_every_parser_loads() -> None:
    assert [info for info in list_parsers() if info.error] == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("slot", "name"), PARSERS)
def test_law(slot: str, name: str, law: Law) -> None:
    assert_laws(load_parser(slot, name), cases_of(slot, name), laws=[law])


@pytest.mark.parametrize(("slot", "name"), PARSERS)
def test_has_golden_cases(slot: str, name: str) -> None:
    assert len(cases_of(slot, name)) >= 25


PAIRS = [("hermes", "qwen3"), ("hermes", "deepseek_r1"), ("deepseek_v3", "deepseek_r1"), ("deepseek_v3", "deepseek_v3"),
         ("llama3_json", "deepseek_r1"), ("pythonic", "qwen3"), ("llama4_pythonic", None), (None, "qwen3")]  # fmt: skip
CHOICES = ("auto", "none", "required", "function:ping")
PROMPTS = (None, "<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n</think>")


def pair_samples(pipeline: Pipeline, cases: list[Case], count: int) -> list[Sample]:
    """Soups for two parsers in a row, under every tool choice and every beginning."""
    texts = [case.text for case in cases]
    markers = find_markers(texts)
    names = dict.fromkeys(["ping", *(tool.name for case in cases for tool in case.tools)])
    samples = []
    for seed in range(count):
        prompt = PROMPTS[seed // 4 % 4]
        request = ParseContext(tools=tuple(map(Tool, names)), tool_choice=CHOICES[seed % 4])
        context = pipeline.open(request, prompt and Prompt(prompt))
        output = Delta(marker_soup(seed, markers, texts), final=True, finish_reason=("stop", "length")[seed // 16 % 2])
        samples.append(Sample(f"marker soup, seed {seed}", output, context))
    return samples


@pytest.mark.parametrize(("tool", "reasoning"), PAIRS, ids=lambda name: str(name))
def test_laws_of_two_parsers_in_a_row(tool: str | None, reasoning: str | None) -> None:
    pipeline = Pipeline(tool and load_parser("tool", tool), reasoning and load_parser("reasoning", reasoning))
    cases = [case for case in CASES if (tool and case.parsers.tool == tool) or case.parsers.reasoning == reasoning]
    assert_samples(pipeline, pair_samples(pipeline, cases, 96))
