"""``derender check``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result

from derender_core.testing import LAWS, schema_fit

Run = Callable[..., Result]
PING = {"name": "ping", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}
pytestmark = pytest.mark.usefixtures("toys")


def rows(output: str) -> dict[str, list[str]]:
    """The cells of the table of cases, by case."""
    lines = output.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("CASE"))
    heads, *found = lines[start : lines.index("", start)]
    assert heads.split() == ["CASE", "MATCH", "ONE-SHOT", "CUTS", "STATE", "LEAKS", "ARGUMENTS", "SCHEMA", "LAWS"]
    return {line.split()[0]: line.split()[1:] for line in found}


def report_of(derender: Run, name: str, golden: Path) -> tuple[int, dict[str, str], str]:
    """Exit code, verdict of each check on the case ``call``, and the details."""
    run = derender("check", name, "--corpus", golden, "--json", "--soup", "5")
    report = json.loads(run.stdout)
    call = next(case for case in report["cases"] if case["id"] == "call")
    details = "\n".join(check.get("detail", "") for check in call["checks"].values())
    return run.exit_code, {check: verdict["status"] for check, verdict in call["checks"].items()}, details


def test_a_good_parser(derender: Run, golden: Path) -> None:
    run = derender("check", "toy", "--corpus", golden)
    assert run.exit_code == 0, run.output
    assert rows(run.stdout) == {"call": ["strict", *["ok"] * 7], "text": ["strict", *["ok"] * 7]}
    assert "tool parser toy of toys 1.2, 2 cases of" in run.stdout
    assert "2 of 2 cases hold; messages: 2 equal (strict)" in run.stdout
    assert f"{len(LAWS)} of {len(LAWS)} laws hold" in run.stdout
    assert run.stderr == ""  # no progress bar where nobody looks


@pytest.mark.parametrize(
    ("name", "failed", "says"),
    [
        ("late", {"cuts", "laws"}, "streamed, char"),
        ("leaky", {"one-shot", "leaks"}, "'[[' comes out as text"),
        ("forgetful", {"state", "laws"}, "the state changes in JSON"),
        ("garbled", {"one-shot", "arguments", "laws"}, "are no JSON object: '{'"),
        ("misfit", {"one-shot", "schema"}, "tool_calls.0.arguments.times: 'two' is not of type 'integer'"),
    ],
)
def test_each_fault_is_found_by_the_check_for_it(
    derender: Run, golden: Path, name: str, failed: set[str], says: str
) -> None:
    code, verdicts, details = report_of(derender, name, golden)
    assert code == 1
    assert {check for check, verdict in verdicts.items() if verdict == "fail"} >= failed
    assert says in details


def test_a_parser_that_raises(derender: Run, corpus: Callable[..., Path]) -> None:
    golden = corpus({"id": "call", "tools": [PING], "output": "Why?", "expected": {"content": "Why?"}})
    code, verdicts, details = report_of(derender, "raising", golden)
    assert (code, verdicts["one-shot"], verdicts["cuts"]) == (1, "fail", "skip")
    assert "RuntimeError in derender_parse_delta: a question" in details


def test_soft_matches_are_told_from_strict_ones(derender: Run, corpus: Callable[..., Path]) -> None:
    base = {"tools": [PING], "output": "Yes. "}
    golden = corpus(
        {"id": "strict", **base, "expected": {"content": "Yes. "}},
        {"id": "soft", **base, "expected": {"content": "Yes."}, "compare": "soft"},
        {"id": "too-soft", **base, "expected": {"content": "Yes."}},
        {"id": "open", **base, "unlabelled": True},
    )
    run = derender("check", "toy", "--corpus", golden, "--soup", "5")
    table = rows(run.stdout)
    assert {case: cells[:2] for case, cells in table.items()} == {
        "strict": ["strict", "ok"],
        "soft": ["soft", "ok"],
        "too-soft": ["soft", "FAIL"],
        "open": ["unlabelled", "-"],
    }
    assert "3 of 4 cases hold; messages: 1 equal (strict), 2 equal but for white space around (soft), 1 unlabelled" in (
        run.stdout
    )
    assert "~ equal but for white space around it (soft)" in run.stdout


def test_arguments_that_fit_no_schema_are_a_note_where_the_label_has_them(
    derender: Run, corpus: Callable[..., Path]
) -> None:
    expected = {"tool_calls": [{"name": "ping", "arguments": {"times": "two"}}]}
    golden = corpus({"id": "call", "tools": [PING], "output": "[[ping]]", "expected": expected})
    code, verdicts, details = report_of(derender, "misfit", golden)
    assert (code, verdicts["schema"]) == (0, "warn")
    assert "the expected arguments do not either" in details


def test_a_schema_is_never_fetched(derender: Run, corpus: Callable[..., Path]) -> None:
    tool = {"name": "ping", "parameters": {"$ref": "https://nowhere.invalid/schema.json"}}
    expected = {"tool_calls": [{"name": "ping", "arguments": {}}]}
    golden = corpus({"id": "call", "tools": [tool], "output": "[[ping]]", "expected": expected})
    code, verdicts, details = report_of(derender, "toy", golden)
    assert (code, verdicts["schema"]) == (0, "warn")
    assert "cannot be used" in details


def test_without_a_validator_it_is_said(derender: Run, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["derender_core.testing.check_case"], "can_check_schemas", lambda: False)
    run = derender("check", "toy", "--corpus", golden, "--soup", "5")
    assert run.exit_code == 0
    assert rows(run.stdout)["call"][6] == "-"
    assert f"not checked: schema: needs jsonschema: install {schema_fit.SCHEMA_EXTRA}" in run.stdout


def test_quiet_shows_what_does_not_hold(derender: Run, golden: Path) -> None:
    assert list(rows(derender("check", "late", "--corpus", golden, "--quiet").stdout)) == ["call"]
    assert "CASE" not in derender("check", "toy", "--corpus", golden, "--quiet").stdout


def test_cases_can_be_chosen(derender: Run, golden: Path) -> None:
    run = derender("check", "late", "--corpus", golden, "--case", "text", "--soup", "0")
    assert list(rows(run.stdout)) == ["text"]


def test_json(derender: Run, golden: Path) -> None:
    report = json.loads(derender("check", "toy", "--corpus", golden, "--json", "--soup", "7").stdout)
    assert report["parser"] == {"slot": "tool", "name": "toy", "distribution": "toys", "version": "1.2"}
    assert (report["passed"], report["matches"], report["soup"]) == (True, {"strict": 2}, 7)
    assert set(report["laws"]) == {law.__name__ for law in LAWS}
    call = report["cases"][0]
    assert call["message"]["tool_calls"] == [{"name": "ping", "arguments": "{}"}]
    assert call["where"] == "golden.jsonl:1"


def test_junit(derender: Run, corpus: Callable[..., Path], tmp_path: Path) -> None:
    output = "odd \x00\x1b [[ping]]"
    golden = corpus({"id": "odd\u0001", "tools": [PING], "output": output, "expected": {"content": "no"}})
    file = tmp_path / "report.xml"
    run = derender("check", "toy", "--corpus", golden, "--junit", file, "--soup", "5")
    assert run.exit_code == 1
    cases, laws = ElementTree.parse(file).getroot()
    assert (cases.get("tests"), cases.get("failures")) == ("1", "1")
    assert (laws.get("tests"), laws.get("failures")) == (str(len(LAWS)), "0")
    (test,) = cases.iter("testcase")
    assert (test.get("classname"), test.get("name")) == ("golden.jsonl", "odd\\x01")
    properties = {one.get("name"): one.get("value") for one in test.iter("property")}
    assert properties == {"match": "differs", "compare": "strict"}
    (failure,) = test.iter("failure")
    assert failure.get("message") == "one-shot"
    assert "expected" in (failure.text or "")


def test_trace(derender: Run, golden: Path) -> None:
    run = derender("check", "toy", "--corpus", golden, "--trace", "call", "--cut", "char")
    assert run.exit_code == 0
    for piece in (
        "case call (golden.jsonl:1), cut 'char', stream_tool_calls='arguments'",
        "delta 16 of 16: ''  final, finish_reason='stop'",
        "  -> ToolCallStart(index=0, name='ping', id=None)",
        '  state {"t": {"held": "[[", "calls": 0}}',
        "message: strict",
    ):
        assert piece in run.stdout
    late = derender("check", "late", "--corpus", golden, "--trace", "call", "--cut", "random, seed 1")
    assert "message: differs" in late.stdout
    assert "≠" in late.stdout


def test_bless_proposes_whole_files(derender: Run, corpus: Callable[..., Path]) -> None:
    golden = corpus(
        {"id": "new", "tools": [PING], "output": "Yes [[ping]]", "unlabelled": True, "notes": "n"},
        {"id": "right", "tools": [PING], "output": "Yes", "expected": {"content": "Yes"}},
        {"id": "wrong", "expected": {"content": "No"}, "tools": [PING], "output": "Yes"},
    )
    run = derender("check", "toy", "--corpus", golden, "--bless", "--soup", "5")
    proposed = golden.with_name("golden.jsonl.proposed")
    assert f"2 labels proposed in {proposed}" in run.stderr
    old, new = golden.read_text().split("\n"), proposed.read_text().split("\n")
    assert new[1] == old[1]
    first, third = json.loads(new[0]), json.loads(new[2])
    assert first["expected"] == {"content": "Yes ", "tool_calls": [{"name": "ping", "arguments": {}}]}
    assert ("unlabelled" in first, list(first)) == (False, ["id", "tools", "output", "expected", "notes"])
    assert third["expected"] == {"content": "Yes"}
    proposed.replace(golden)
    assert derender("check", "toy", "--corpus", golden, "--soup", "5").exit_code == 0


def test_what_depends_on_the_cut_is_not_proposed(derender: Run, corpus: Callable[..., Path]) -> None:
    golden = corpus({"id": "new", "tools": [PING], "output": "Yes [[ping]]", "unlabelled": True})
    run = derender("check", "late", "--corpus", golden, "--bless", "--soup", "0")
    assert run.exit_code == 1
    assert not golden.with_name("golden.jsonl.proposed").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tory"], "Did you mean 'toy'?"),
        (["hermes", "--case", "x"], "no case 'x' for the tool parser 'hermes'"),
        (["toy", "--case", "cal"], "Did you mean 'call'?"),
        (["toy", "--trace", "call", "--cut", "bytes"], "there is no cut 'bytes' of this case; there are 'one'"),
        (["toy", "--tokenizer", "."], "tokenizer.json"),
    ],
)
def test_what_cannot_be_checked_ends_with_2(derender: Run, golden: Path, arguments: list[str], says: str) -> None:
    run = derender("check", *arguments, "--corpus", golden)
    assert run.exit_code == 2, run.output
    assert says in run.output


def test_a_corpus_for_others_is_run_on_request(derender: Run, corpus: Callable[..., Path]) -> None:
    golden = corpus({"id": "a", "parsers": {"tool": "late"}, "output": "x", "expected": {"content": "x"}})
    refused = derender("check", "toy", "--corpus", golden)
    assert refused.exit_code == 2
    assert "--all-cases" in refused.output
    assert derender("check", "toy", "--corpus", golden, "--all-cases", "--soup", "5").exit_code == 0


def test_tokens_are_cut_at(derender: Run, golden: Path) -> None:
    from derender_server.model import DEMO_DIRECTORY

    run = derender(
        "check", "toy", "--corpus", golden, "--tokenizer", DEMO_DIRECTORY, "--trace", "call", "--cut", "token"
    )
    assert run.exit_code == 0, run.output
    assert "cut 'token'" in run.stdout


def test_a_progress_bar_is_shown_to_those_who_look(golden: Path, toys: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="terminals of this kind are of POSIX")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "derender_server.cli", "check", "toy", "--corpus", str(golden), "--soup", "5"]
    variables = {**os.environ, "PYTHONPATH": str(toys), "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path, env=variables) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        out = process.stdout.read() if process.stdout else b""
    os.close(ours)
    assert process.returncode == 0
    assert b"cases" in shown
    assert b"100%" in shown
    assert b"100%" not in out


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_watch_checks_again_when_something_changes(golden: Path, toys: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "derender_server.cli", "check", "toy", "--watch"]
    command += ["--corpus", str(golden), "--soup", "0"]
    variables: dict[str, Any] = {**os.environ, "PYTHONPATH": str(toys), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=variables
    )
    assert process.stdout is not None
    try:
        assert "2 of 2 cases hold; messages: 2 equal (strict)\n" in _until(process.stdout, "-- waiting")
        golden.write_text(golden.read_text().splitlines()[0] + "\n")
        seen = _until(process.stdout, "-- waiting")
        assert "-- changed: golden.jsonl\n" in seen
        assert "1 of 1 case hold; messages: 1 equal (strict)\n" in seen
        module = toys / "toys.py"
        module.write_text(module.read_text().replace("toy, late", "late, toy"))
        seen = _until(process.stdout, "-- waiting")
        assert "-- changed: toys.py\n" in seen
        assert "0 of 1 case hold; messages: 1 equal (strict)\n" in seen
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _until(stream: Any, mark: str) -> list[str]:
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.startswith(mark):
            return lines
    raise AssertionError("".join(lines))
