"""Every golden case, one-shot and at every cut, with the state through JSON at each step."""

import json
from pathlib import Path

import pytest

from derender_core import Message, ModelTokenizer, ToolCall, fold_message
from derender_core.testing import Case, assert_case, event_faults, extract_case, load_cases, run_case
from derender_core.testing.run import case_cuts
from derender_server.demo import demo_model_path

DATA = Path(__file__).parent.parent / "data"
CASES = load_cases(DATA)
TOKENIZER = ModelTokenizer.load(demo_model_path())
SHORT = 80
IDS = [f"{case.where.partition('.')[0]}-{case.id}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_case(case: Case) -> None:
    tokens = TOKENIZER if isinstance(case.output, str) else None  # other cases bring their own token ids
    assert_case(case, tokenizer=tokens, pairs=len(case.text) <= SHORT)


@pytest.mark.parametrize("file", sorted(DATA.glob("*.jsonl")), ids=lambda file: file.stem)
def test_corpora_are_not_thin(file: Path) -> None:
    assert len(load_cases(file)) >= 25


def test_ids_are_unique_in_all_files_of_a_parser() -> None:
    assert len(set(IDS)) == len(IDS)


def parsed(message: Message) -> tuple[str | None, str | None, list[tuple[str, object]]]:
    return message.content, message.reasoning, [(call.name, arguments(call)) for call in message.tool_calls]


def arguments(call: ToolCall) -> object:
    try:
        return json.loads(call.arguments)
    except ValueError:
        return f"no JSON: {call.arguments}"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_streamed_arguments_differ_exactly_where_a_call_was_announced_in_vain(case: Case) -> None:
    """Only cases tagged ``announced`` depend on ``stream_tool_calls``, and those at all cuts alike.

    Such a stream holds a call that was never ended (cut), or another message (malformed).
    """
    pipeline = case.pipeline()
    once = parsed(fold_message(extract_case(case, pipeline)))
    streamed = [run_case(case, cut, pipeline, mode="arguments").events for cut in case_cuts(case)]
    assert all(events == streamed[0] for events in streamed)
    differs = bool(event_faults(streamed[0], complete=True)) or parsed(fold_message(streamed[0])) != once
    assert differs is ("announced" in case.tags)
