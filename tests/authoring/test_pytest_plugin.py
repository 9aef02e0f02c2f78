"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from derender_core.testing import LAWS

Run = Callable[..., subprocess.CompletedProcess[str]]
OPTIONS = ("--derender-parser", "toy", "--derender-corpus")


def outcomes(run: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """``{"passed": 3, "failed": 1}`` of the last line."""
    counts = re.findall(r"(\d+) (passed|failed|error|errors)", run.stdout.strip().splitlines()[-1])
    return {name: int(count) for count, name in counts}


def test_a_corpus_is_run_with_no_test_code(run_module: Run, golden: Path) -> None:
    run = run_module("pytest", "-v", *OPTIONS, golden)
    assert run.returncode == 0, run.stdout
    assert outcomes(run) == {"passed": 2 + len(LAWS)}
    assert "golden.jsonl::call PASSED" in run.stdout
    assert "golden.jsonl::law-never_raises PASSED" in run.stdout


def test_a_case_that_fails_shows_its_report_and_no_traceback(run_module: Run, golden: Path) -> None:
    run = run_module("pytest", "--derender-parser", "tool:late", "--derender-corpus", golden)
    assert run.returncode == 1
    assert "golden.jsonl::call" in run.stdout
    for piece in ("[cuts] case call (golden.jsonl:1), streamed, char", "> delta 8 of 16: '['", "state: {", "one-shot"):
        assert piece in run.stdout
    assert "breaks the law cuts_do_not_matter" in run.stdout
    assert "check_case.py" not in run.stdout


def test_a_case_can_be_named_and_chosen(run_module: Run, golden: Path) -> None:
    run = run_module("pytest", f"{golden.name}::text", *OPTIONS, golden.name)
    assert outcomes(run) == {"passed": 1}
    assert outcomes(run_module("pytest", "-k", "call", *OPTIONS, golden)) == {"passed": 1}


@pytest.mark.parametrize("place", ["corpus", "build"])
@pytest.mark.parametrize("arguments", [(), (".",), ("tests",)])
def test_the_corpus_is_collected_once_beside_other_tests(
    run_module: Run, golden: Path, tmp_path: Path, place: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_other.py").write_text("def test_other(): pass\n")
    (tmp_path / place).mkdir()
    golden.rename(tmp_path / place / golden.name)
    run = run_module("pytest", *arguments, *OPTIONS, place)
    assert outcomes(run) == {"passed": 3 + len(LAWS)}, run.stdout


@pytest.mark.usefixtures("golden")
def test_ini_settings_stand_in_for_options(run_module: Run, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nderender_parser = toy\nderender_corpus = golden.jsonl\n")
    (tmp_path / "below").mkdir()
    assert outcomes(run_module("pytest")) == {"passed": 2 + len(LAWS)}
    assert outcomes(run_module("pytest", cwd=tmp_path / "below")) == {"passed": 2 + len(LAWS)}
    failing = run_module("pytest", "--derender-parser", "leaky")
    assert outcomes(failing)["failed"] >= 1


def test_fixtures_for_those_who_write_tests(run_module: Run, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        """
def test_parser(derender_parser):
    assert (derender_parser.slot, derender_parser.name) == ("tool", "toy")

def test_cases(derender_cases, derender_tokenizer):
    assert [case.id for case in derender_cases] == ["call", "text"]
    assert derender_tokenizer is None

def test_case(derender_case):
    assert derender_case.id in ("call", "text")
"""
    )
    run = run_module("pytest", "-v", "test_own.py", *OPTIONS, golden)
    assert outcomes(run) == {"passed": 4 + 2 + len(LAWS)}, run.stdout
    assert "test_own.py::test_case[text] PASSED" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--derender-corpus", "golden.jsonl"), "a corpus needs a parser: --derender-parser NAME"),
        (("--derender-parser", "toy", "--derender-corpus", "none"), "there is no corpus"),
        (("--derender-parser", "tory", "--derender-corpus", "golden.jsonl"), "Did you mean 'toy'?"),
        (("--derender-parser", "toy", "--derender-corpus", "empty"), "nothing was collected of the corpus"),
        (("--derender-parser", "toy", "--derender-corpus", "bad.jsonl"), "bad.jsonl:1: output"),
        (("--derender-parser", "toy", "--derender-corpus", "other.jsonl"), "--derender-all-cases"),
    ],
)
@pytest.mark.usefixtures("golden")
def test_what_cannot_be_run_is_said(run_module: Run, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "output": 1, "expected": {}}\n')
    (tmp_path / "other.jsonl").write_text('{"id": "a", "parsers": {"tool": "late"}, "output": "", "expected": {}}\n')
    run = run_module("pytest", *arguments)
    assert run.returncode not in (0, 1, 5)
    assert says in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_other_runs_do_not_load_derender(run_module: Run, tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        """
import sys

def test_plain():
    assert "pytest_derender.plugin" in sys.modules
    assert not {"derender_core", "derender_server", "pydantic", "tokenizers"} & set(sys.modules)
"""
    )
    run = run_module("pytest", "-W", "error")
    assert outcomes(run) == {"passed": 1}, run.stdout
