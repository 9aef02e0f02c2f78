"""docs/corpus.md is true: keys, checks, flags and names."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from derender_core.testing import Case
from derender_core.testing.check_corpus import COLUMNS
from derender_server.authoring.check import check
from derender_server.authoring.corpus import corpus
from derender_server.authoring.importing import NAMES
from derender_server.authoring.lazy import COMMANDS

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")


def rows(head: str) -> dict[str, str]:
    """A table by its first column, codes in the first cell separated by commas."""
    table = TEXT[TEXT.index(head) :].partition("\n\n")[0].splitlines()[2:]
    return dict(line.strip("| ").split(" | ", 1) for line in table)


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_key_is_documented_and_no_other() -> None:
    keys = [key for cell in rows("| key | |") for key in codes(cell)]
    assert sorted(keys) == sorted(Case.model_fields)


def test_every_check_is_documented_in_order() -> None:
    assert [codes(cell)[0] for cell in rows("| check | holds when |")] == list(COLUMNS)


def test_every_flag_of_check_is_documented() -> None:
    flags = {param.opts[0] for param in check.params if isinstance(param, click.Option)}
    assert flags <= set(re.findall(r"--[\w-]+", TEXT))


@pytest.mark.parametrize("name", sorted(corpus.commands))
def test_every_command_on_corpora_is_documented(name: str) -> None:
    assert f"derender corpus {name}" in TEXT
    known = {param.opts[0] for param in corpus.commands[name].params if isinstance(param, click.Option)}
    shown = re.findall(rf"derender corpus {name} (.*)", TEXT)
    assert {flag for line in shown for flag in re.findall(r"--[\w-]+", line)} <= known


def test_names_of_other_suites_are_those_that_are_known() -> None:
    documented = {codes(cell)[0]: tuple(codes(names)) for cell, names in rows("| key | names |").items()}
    assert documented == dict(NAMES)


def test_every_command_for_authors_is_in_the_documentation() -> None:
    documents = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "docs").rglob("*.md"))
    assert [name for name in COMMANDS if f"derender {name} " not in documents] == []


def test_every_option_of_the_pytest_plugin_is_documented() -> None:
    options = (ROOT / "pytest_derender" / "options.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)": \(', options, re.MULTILINE)
    assert names == ["parser", "corpus", "tokenizer"]
    assert [name for name in [*names, "all-cases"] if f"--derender-{name}" not in TEXT] == []
