"""Every installed parser keeps the laws, over its golden cases and over marker soup."""

from pathlib import Path

import pytest

from derender_core import Delta, ParseContext, ParserInfo, Pipeline, Prompt, Slot, Tool, list_parsers, load_parser
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
    state_is_bounded,
)

CASES = load_cases(Path(__file__).parent / "data")
INFOS = [info for info in list_parsers() if not info.error]


def plugin_of(info: ParserInfo) -> int:
    return id(load_parser(info.slot, info.name).plugin)


# Parsers by what they are: an alias is the same object under another name, and keeps the same laws.
NAMES: dict[tuple[str, int], list[str]] = {}
for _info in INFOS:
    NAMES.setdefault((_info.slot, plugin_of(_info)), []).append(_info.name)
PARSERS = [pytest.param(slot, names, id=f"{slot}-{names[0]}") for (slot, _), names in NAMES.items()]


def cases_of(slot: str, names: list[str]) -> list[Case]:
    return [case for case in CASES if getattr(case.parsers, slot) in names]


def test_every_parser_loads() -> None:
    assert [info for info in list_parsers() if info.error] == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("slot", "names"), PARSERS)
def test_law(slot: Slot, names: list[str], law: Law) -> None:
    assert_laws(load_parser(slot, names[0]), cases_of(slot, names), laws=[law], soup=60)


@pytest.mark.parametrize(("slot", "names"), PARSERS)
def test_has_golden_cases(slot: Slot, names: list[str]) -> None:
    assert len(cases_of(slot, names)) >= 25


PAIRS = [("hermes", "qwen3"), ("hermes", "deepseek_r1"), ("deepseek_v3", "deepseek_r1"), ("deepseek_v3", "deepseek_v3"),
         ("llama3_json", "deepseek_r1"), ("pythonic", "qwen3"), ("llama4_pythonic", None), (None, "qwen3"),
         ("mistral", "mistral"), ("openai", "openai_gptoss"), (None, "openai_gptoss"),
         ("kimi_k3", "kimi_k3"), (None, "kimi_k3"), ("kimi_k2", "kimi_k2"),
         ("gemma4", "gemma4"), ("cohere_command3", "cohere_command3"),
         ("granite", "granite"), ("olmo3", "olmo3"), ("hunyuan_a13b", "hunyuan_a13b"),
         ("xlam", "deepseek_r1"), ("hy3", "hy3"), ("dots", "qwen3"), ("minicpm5", "qwen3"),
         ("minimax_m3", "minimax_m3")]  # fmt: skip
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
    samples = pair_samples(pipeline, cases, 64)
    assert_samples(pipeline, samples, laws=[law for law in LAWS if law is not state_is_bounded])
    assert_samples(pipeline, samples[:16], laws=[state_is_bounded])  # one for each choice and beginning
