"""The tutorial is done: every command of docs/tutorial.md is run, in a fresh environment, and its output compared.

Without a registry this is skipped, except in CI, where it fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r'(?ms)^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$')
MARK = "\x1e"


@dataclass(frozen=True)
class Command:
    """A command, and the output that is shown."""

    line: str
    shown: str


@dataclass(frozen=True)
class WrittenFile:
    """A file that the reader is told to write."""

    name: str
    content: str


def steps() -> Iterator[Command | WrittenFile]:
    """What a reader does, in order."""
    for language, title, content in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if title:
            yield WrittenFile(title, content)
        elif language == "console":
            for step in re.split(r"(?m)^\$ ", content)[1:]:
                line, _, shown = step.partition("\n")
                yield Command(line, shown)


def as_pattern(shown: str) -> str:
    """The output as a pattern: a line … is any lines, and … in a line is any text."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"[ ]*\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)


@pytest.fixture
def wheel(uv: Callable[..., str], tmp_path: Path) -> Path:
    """derender itself, which the tutorial installs; built from a copy, so that no old build can be in it."""
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("derender_core", "derender_plugins", "pytest_derender", "server"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    uv("build", "--wheel", "--quiet", "--out-dir", tmp_path / "dist", copy)
    (built,) = (tmp_path / "dist").glob("*.whl")
    return built


def test_as_pattern() -> None:
    assert re.fullmatch(as_pattern("…\n3 passed in …\n"), "...\n\n3 passed in 1.2s\n")
    assert re.fullmatch(as_pattern("a  b\n"), "a  b\n")
    assert not re.fullmatch(as_pattern("a\n"), "a\nb\n")
    assert not re.fullmatch(as_pattern("(a)\n"), "a\n")


def test_the_tutorial_works_as_it_is_written(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "reader"
    place.mkdir()
    constraint = tmp_path / "constraint.txt"
    constraint.write_text(f"derender @ {wheel.as_uri()}\n", encoding="utf-8")
    known = ("PYTEST", "DERENDER", "VIRTUAL_ENV", "PYTHONPATH", "COLUMNS")
    variables = {key: value for key, value in os.environ.items() if not key.startswith(known)}
    constraints = [value for value in [variables.get("PIP_CONSTRAINT")] if value]
    variables |= {"PIP_CONSTRAINT": " ".join([str(constraint), *constraints]), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    variables |= {"PYTHONUTF8": "1", "COLUMNS": "110"}

    todo = list(steps())
    commands = [step for step in todo if isinstance(step, Command)]
    assert len(commands) >= 15
    run = subprocess.run(
        ["bash"], input=_script(todo), capture_output=True, encoding="utf-8", cwd=place, env=variables
    )  # fmt: skip
    outputs = run.stdout.split(MARK)
    assert len(outputs) == len(commands) + 1, run.stdout + run.stderr
    problems = [problem for pair in zip(commands, outputs[:-1], strict=True) if (problem := _problem(*pair))]
    assert problems == [], "\n\n".join(problems) + run.stderr


def _problem(command: Command, output: str) -> str | None:
    """What is different from what the tutorial shows."""
    text, _, code = output.rpartition("\n")
    if code != ("1" if "FAIL" in command.shown else "0"):
        return f"$ {command.line}\n{text}\nends with {code}"
    text = text.strip("\n")
    if not command.shown.strip() or re.fullmatch(as_pattern(command.shown.strip("\n")), text + "\n"):
        return None
    return f"$ {command.line}\n{text}\n-- shown:\n{command.shown}"


def _script(todo: list[Command | WrittenFile]) -> str:
    """One shell for all, since commands change its directory and its environment."""
    lines = []
    for step in todo:
        if isinstance(step, WrittenFile):
            lines.append(f"cat > {step.name} << 'END OF FILE'\n{step.content}END OF FILE\n")
        else:
            lines.append(f"{step.line} 2>&1 < /dev/null\nprintf '\\n%s{MARK}' $?\n")
    return "".join(lines)
