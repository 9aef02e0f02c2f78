"""``derender corpus validate``, ``schema`` and ``import``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from derender_core.testing import Case, corpus_schema, load_cases
from derender_server.authoring.importing import NAMES

Run = Callable[..., Result]
GOOD = {"id": "a", "output": "hi", "expected": {"content": "hi"}}


# -- validate ----------------------------------------------------------------------------------------------------------


def test_good_corpora(derender: Run, corpus: Callable[..., Path]) -> None:
    first = corpus(GOOD, {**GOOD, "id": "b"}, name="a.jsonl")
    corpus({"id": "c", "output": "x", "unlabelled": True}, name="b.jsonl")
    run = derender("corpus", "validate", first.parent)
    assert (run.exit_code, run.stdout) == (0, "")
    assert run.stderr == "3 cases in 2 files, 1 unlabelled; 0 errors\n"
    assert derender("corpus", "validate", first, first.with_name("b.jsonl")).stderr == run.stderr


def test_every_fault_is_named_with_file_and_line(derender: Run, corpus: Callable[..., Path], tmp_path: Path) -> None:
    bad_tool = {"name": "f", "parameters": {"type": "objekt"}}
    file = corpus(GOOD, {**GOOD, "expect": {}}, GOOD, {**GOOD, "id": "d", "tools": [bad_tool]})
    file.write_text(file.read_text() + "{\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    run = derender("corpus", "validate", tmp_path)
    assert run.exit_code == 1
    lines = run.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        str(tmp_path / "empty.jsonl"),
        *(f"{file}:{number}" for number in (2, 3, 4, 5)),
    ]
    faults = (
        "holds no case",
        "expect: there is no such key. Did you mean 'expected'?",
        "id 'a' was used in line 1",
        "tools.0.parameters: no JSON Schema: 'objekt'",
        "not JSON",
    )
    for line, says in zip(lines, faults, strict=True):
        assert says in line
    assert run.stderr == "2 cases in 2 files, 0 unlabelled; 5 errors\n"


def test_labels_can_be_demanded(derender: Run, corpus: Callable[..., Path]) -> None:
    file = corpus({"id": "c", "output": "x", "unlabelled": True})
    run = derender("corpus", "validate", "--labelled", file)
    assert run.exit_code == 1
    assert run.stdout == f"{file}:1: unlabelled: nobody has said what must come\n"


def test_a_directory_without_a_corpus_ends_with_2(derender: Run, tmp_path: Path) -> None:
    run = derender("corpus", "validate", tmp_path)
    assert run.exit_code == 2
    assert "no .jsonl file" in run.output


def test_the_schema_is_printed(derender: Run) -> None:
    assert json.loads(derender("corpus", "schema").stdout) == corpus_schema()


def test_the_commands_are_loaded_when_they_are_called() -> None:
    import subprocess

    script = """
import sys
from derender_server.cli import main
try:
    main(["version"])
except SystemExit:
    pass
print(*(name for name in sys.modules if name.startswith(("derender_server.authoring.", "derender_core.testing"))))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "derender_server.authoring.lazy"


# -- import ------------------------------------------------------------------------------------------------------------

OPENAI_TOOL = {"type": "function", "function": {"name": "ring", "parameters": {"type": "object"}}}
OPENAI_CALL = {"id": "call_1", "type": "function", "function": {"name": "ring", "arguments": '{"times": 2}'}}
OTHER: dict[str, Any] = {
    "test_id": "one",
    "model_output": "<tool_call>…</tool_call>",
    "functions": [OPENAI_TOOL],
    "tool_choice": {"type": "function", "function": {"name": "ring"}},
    "chat_template_kwargs": {"enable_thinking": False},
    "prompt_suffix": "<|im_start|>assistant\n",
    "expected_message": {"content": None, "reasoning": "Hm.", "tool_calls": [OPENAI_CALL]},
    "labels": "ring",
    "license": "MIT",
    "parser": "hermes",
    "score": 1,
}


def imported(derender: Run, corpus: Callable[..., Path], *records: Any, **options: str) -> tuple[list[Case], Result]:
    source = corpus(*records, name="theirs.txt")
    out = source.with_name("ours.jsonl")
    flags = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    run = derender("corpus", "import", source, "--out", out, *flags)
    return load_cases(out), run


def test_other_names_and_forms_are_understood(derender: Run, corpus: Callable[..., Path]) -> None:
    (case,), run = imported(derender, corpus, OTHER, reasoning_parser="qwen3", origin="their suite")
    assert run.exit_code == 0, run.output
    assert case.model_dump(exclude_defaults=True, mode="json") == {
        "id": "one",
        "parsers": {"tool": "hermes", "reasoning": "qwen3"},
        "tools": [{"name": "ring", "parameters": {"type": "object"}}],
        "tool_choice": "function:ring",
        "template_kwargs": {"enable_thinking": False},
        "prompt": "<|im_start|>assistant\n",
        "output": "<tool_call>…</tool_call>",
        "expected": {"reasoning_content": "Hm.", "tool_calls": [{"name": "ring", "arguments": {"times": 2}}]},
        "tags": ["ring"],
        "licence": "MIT",
        "source": "their suite",
    }
    assert run.stderr.splitlines() == [
        "1 case in " + str(case.file) + ", 0 unlabelled; 0 lines not taken",
        "keys not taken: score (1)",
    ]


def test_labels_at_the_top_nested_inputs_and_none_at_all(derender: Run, corpus: Callable[..., Path]) -> None:
    cases, run = imported(
        derender,
        corpus,
        {"output": "a", "expected_content": "a", "expected_tool_calls": []},
        {"input": {"raw_output": "b", "parsers": {"tool_call_parser": "hermes"}}, "expected": {"content": "b"}},
        {"output": "c", "expected_error": "no_tool_calls"},
        {"output": "d"},
    )
    assert run.exit_code == 0, run.output
    assert [case.id for case in cases] == ["theirs-1", "theirs-2", "theirs-3", "theirs-4"]
    assert [case.text for case in cases] == ["a", "b", "c", "d"]
    assert cases[0].alternatives[0].content == "a"
    assert cases[1].parsers.tool == "hermes"
    assert cases[2].expected_error == ("no_tool_calls",)
    assert cases[3].unlabelled
    assert "4 cases" in run.stderr
    assert "1 unlabelled" in run.stderr


def test_a_key_can_be_mapped(derender: Run, corpus: Callable[..., Path]) -> None:
    record = {"sample": {"raw": "x"}, "gold": {"content": "x"}, "text": "not this"}
    source = corpus(record, name="theirs.txt")
    out = source.with_name("ours.jsonl")
    run = derender(
        "corpus", "import", source, "--out", out, "--map", "output=sample.raw", "--map", "expected=gold"
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    (case,) = load_cases(out)
    assert (case.text, case.alternatives[0].content) == ("x", "x")


def test_lines_that_are_no_cases_are_named_and_the_others_taken(derender: Run, corpus: Callable[..., Path]) -> None:
    bad_call = {"function": {"name": "ring", "arguments": "{"}}
    cases, run = imported(
        derender,
        corpus,
        {"name": "a", "output": "x"},
        {"name": "b"},
        {"name": "a", "output": "x"},
        {"name": "c", "output": "x", "expected": {"tool_calls": [bad_call]}},
        {"name": "d", "output": "x", "tools": [{}]},
        [1],
    )
    assert run.exit_code == 1
    assert [case.id for case in cases] == ["a"]
    said = [line.partition("theirs.txt:")[2] for line in run.stdout.splitlines()]
    assert [line[0] for line in said] == ["2", "3", "4", "5", "6"]
    for line, says in zip(
        said, ("give 'output'", "used before", "property name", "'name'", "this is list"), strict=True
    ):
        assert says in line


def test_labelled_work_is_not_written_over(derender: Run, corpus: Callable[..., Path]) -> None:
    source = corpus(GOOD)
    run = derender("corpus", "import", source, "--out", source)
    assert run.exit_code == 2
    assert "exists" in run.output
    wrong = derender("corpus", "import", source, "--out", source.with_name("new.jsonl"), "--map", "output")
    assert (wrong.exit_code, "write KEY=PATH" in wrong.output) == (2, True)


def test_known_names_belong_to_keys_that_cases_have() -> None:
    own = {"tool_parser", "reasoning_parser", "content", "reasoning_content", "tool_calls"}
    assert set(NAMES) - own <= set(Case.model_fields)
    assert set(Case.model_fields) - set(NAMES) == {"parsers", "unlabelled"}


@pytest.mark.parametrize("command", [["check"], ["corpus"], ["corpus", "record"], ["corpus", "import"], ["new-parser"]])
def test_every_command_explains_itself(derender: Run, command: list[str]) -> None:
    run = derender(*command, "--help")
    assert run.exit_code == 0
    assert "Usage:" in run.output
    assert command[0] in derender("--help").output
