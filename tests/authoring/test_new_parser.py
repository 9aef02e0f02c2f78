"""``derender new-parser``: what it writes passes its own tests at once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from derender_core.testing import LAWS, load_cases

Run = Callable[..., Result]
FLAGS = {"tool": ("--opener", "<|call|>", "--closer", "<|/call|>"), "reasoning": ("--slot", "reasoning")}


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files(project: Path) -> set[str]:
    return {file.relative_to(project).as_posix() for file in project.rglob("*") if file.is_file()}


@pytest.mark.parametrize("slot", ["tool", "reasoning"])
def test_it_writes_a_whole_project(derender: Run, slot: str) -> None:
    run = derender("new-parser", "my_ledger", *FLAGS[slot])
    assert run.exit_code == 0, run.output
    project = Path("derender-my-ledger")
    assert files(project) == {
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "derender_my_ledger.py",
        "golden.jsonl",
        "pyproject.toml",
        "test_derender_my_ledger.py",
    }
    assert all(name in run.output for name in files(project))
    text = "".join((project / name).read_text(encoding="utf-8") for name in files(project))
    assert "@@" not in text
    assert "${{ matrix.python }}" in text
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    entry_points = {f"derender.{slot}_parsers": {"my_ledger": "derender_my_ledger:plugin"}}
    assert settings["project"]["entry-points"] == entry_points
    assert settings["tool"]["pytest"]["ini_options"]["derender_parser"] == f"{slot}:my_ledger"
    assert len(load_cases(project / "golden.jsonl")) >= 6
    for module in project.glob("*.py"):
        assert ast.get_docstring(ast.parse(module.read_text()))


def test_markers_of_any_kind_are_written_as_literals(derender: Run) -> None:
    opener, closer = '"\\<｜"', "{end}\n$$"
    assert derender("new-parser", "odd", "--opener", opener, "--closer", closer, "--directory", "x").exit_code == 0
    names: dict[str, object] = {}
    exec(compile(Path("x/derender_odd.py").read_text(encoding="utf-8"), "odd", "exec", dont_inherit=True), names)
    assert (names["OPENER"], names["CLOSER"]) == (opener, closer)
    assert load_cases("x/golden.jsonl")[0].text.startswith(opener)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Ledger"], "use small letters"),
        (["1st"], "use small letters"),
        (["a:b"], "use small letters"),
        (["class"], "use small letters"),
        (["hermes"], "has a tool parser 'hermes' already"),
        (["new", "--opener", "x", "--closer", "x"], "two different texts"),
        (["new", "--opener", " "], "two different texts"),
        (["new", "--directory", "full"], "full exists and is not empty"),
    ],
)
def test_what_cannot_be_written_is_refused(derender: Run, arguments: list[str], says: str) -> None:
    Path("full").mkdir()
    Path("full/file").write_text("")
    run = derender("new-parser", *arguments)
    assert run.exit_code == 2
    assert says in run.output
    assert files(Path()) == {"full/file"}


def test_a_name_of_the_other_slot_is_free(derender: Run) -> None:
    assert derender("new-parser", "hermes", "--slot", "reasoning").exit_code == 0


# -- installed ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(uv: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that sees what the one of these tests has, so that only building needs a registry."""
    place = tmp_path_factory.mktemp("environment")
    uv("venv", "--python", sys.executable, place)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (Path(packages) / "tests_environment.pth").write_text(line, encoding="utf-8")
    return python


@pytest.mark.parametrize("slot", ["tool", "reasoning"])
def test_it_passes_its_own_tests_at_once(uv: Callable[..., str], derender: Run, python: Path, slot: str) -> None:
    name = f"scaffolded-{slot}"
    assert derender("new-parser", name, *FLAGS[slot]).exit_code == 0
    project = Path(f"derender-{name}")
    uv("pip", "install", "--no-deps", "--python", python, "--editable", project)
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "DERENDER"))}

    def module(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, "-m", *arguments], capture_output=True, text=True, cwd=project, env=variables)

    tests = module("pytest", "-q")
    assert tests.returncode == 0, tests.stdout + tests.stderr
    cases = len(load_cases(project / "golden.jsonl"))
    assert f"{cases + len(LAWS) + 2} passed" in tests.stdout
    checked = module("derender_server.cli", "check", f"{slot}:{name}", "--corpus", "golden.jsonl")
    assert checked.returncode == 0, checked.stdout
    assert f"{cases} of {cases} cases hold" in checked.stdout
    validated = module("derender_server.cli", "corpus", "validate", "--labelled", "golden.jsonl")
    assert validated.returncode == 0, validated.stdout
