"""Corpora: files of golden cases, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from derender_core.nearest import did_you_mean
from derender_core.testing.cases import Case, CaseError

__all__ = ["CorpusFault", "corpus_files", "describe_fault", "load_cases", "validate_corpus"]


class CorpusFault(NamedTuple):
    """Something wrong with a corpus.

    Args:
        file: the file.
        line: from 1; 0 when it concerns the whole file.
        message: what is wrong, with the field in front.
    """

    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


def corpus_files(path: Path | str) -> list[Path]:
    """The files of a corpus: a ``.jsonl`` file, or all of them in a directory, by name.

    Raises:
        CaseError: a directory without any.
    """
    path = Path(path)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise CaseError(f"{path}: no .jsonl file in this directory")
    return files


def load_cases(path: Path | str) -> list[Case]:
    """Read a corpus: a ``.jsonl`` file, or all of them in a directory. Blank lines are skipped.

    Raises:
        CaseError: a file cannot be read, holds no case, or a line is no case; names the file, the line and the field.
    """
    cases: list[Case] = []
    for file in corpus_files(path):
        for found in _read(file):
            if isinstance(found, CorpusFault):
                raise CaseError(f"{file.name}:{found.line}: {found.message}" if found.line else str(found))
            cases.append(found)
    return cases


def validate_corpus(path: Path | str) -> tuple[list[Case], list[CorpusFault]]:
    """Read a corpus to the end, whatever is wrong with it.

    Returns:
        The cases that can be read, and what is wrong with all others.

    Raises:
        CaseError: a directory without a corpus.
    """
    found = [one for file in corpus_files(path) for one in _read(file)]
    faults = [one for one in found if isinstance(one, CorpusFault)]
    return [one for one in found if isinstance(one, Case)], faults


def _read(file: Path) -> Iterator[Case | CorpusFault]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        yield CorpusFault(file, 0, f"cannot be read: {error}")
        return
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _read_line(line)
        if isinstance(found, Case) and found.id in seen:
            found = f"id {found.id!r} was used in line {seen[found.id]} already"
        if isinstance(found, str):
            yield CorpusFault(file, number, found)
            continue
        seen[found.id] = number
        yield found.placed(file, number)
    if not any(line.strip() for line in lines):
        yield CorpusFault(file, 0, "holds no case")


def _read_line(line: str) -> Case | str:
    """The case, or what is wrong with it."""
    try:
        record = json.loads(line)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(record, dict):
        return f"a case must be a JSON object, this is {type(record).__name__}"
    try:
        return Case.model_validate(record)
    except ValidationError as error:
        return "; ".join(describe_fault(dict(one)) for one in error.errors())


def describe_fault(error: dict[str, Any]) -> str:
    """What pydantic says of a case, in our words and with the field in front."""
    place = ".".join(map(str, error["loc"]))
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        near = did_you_mean(place, Case.model_fields) if len(error["loc"]) == 1 else ""
        text = f"there is no such key.{near}" if near else "there is no such key"
    return f"{place}: {text}" if place else text
