"""Finding and loading parsers, with real distributions on the path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derender_core import (
    AmbiguousParserError,
    BrokenParserError,
    Delta,
    ParseContext,
    Text,
    UnknownParserError,
    list_parsers,
    load_parser,
)

ECHO = '''
"""Says what it hears."""
from derender_core import Step, Text, hookimpl

@hookimpl
def derender_parse_delta(delta):
    return Step({}, (Text(delta.text),) if delta.text else ())
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install("dist", {"tool": {"name": "module"}}, module=source)``: puts a distribution on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    load_parser.cache_clear()
    made: list[str] = []

    def install(distribution: str, parsers: dict[str, dict[str, str]], version: str = "1.0", **modules: str) -> None:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
            made.append(name)
        folder = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        groups = "".join(
            f"[derender.{slot}_parsers]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
            for slot, entries in parsers.items()
        )
        (folder / "entry_points.txt").write_text(groups)
        importlib.invalidate_caches()

    yield install
    load_parser.cache_clear()
    for name in made:
        sys.modules.pop(name, None)


def test_loads_what_a_distribution_declares(install: Install) -> None:
    install(
        "echo-parsers", {"tool": {"echo": "echo_parser"}, "reasoning": {"echo": "echo_parser"}}, "2.5", echo_parser=ECHO
    )
    parser = load_parser("tool", "echo")
    assert (parser.slot, parser.name, parser.distribution, parser.version) == ("tool", "echo", "echo-parsers", "2.5")
    assert parser.description == "Says what it hears."
    assert parser.parse_delta(None, Delta("a"), ParseContext()).events == (Text("a"),)
    assert load_parser("tool", "echo") is parser
    assert load_parser("reasoning", "echo") is not parser
    assert load_parser("tool", "echo-parsers:echo").plugin is parser.plugin
    [info] = [info for info in list_parsers() if (info.slot, info.name) == ("tool", "echo")]
    assert (info.distribution, info.version, info.description, info.error) == (
        "echo-parsers", "2.5", "Says what it hears.", None,
    )  # fmt: skip


def test_unknown_names_get_the_nearest_and_the_list(install: Install) -> None:
    install("echo-parsers", {"tool": {"echo": "echo_parser"}}, echo_parser=ECHO)
    with pytest.raises(UnknownParserError) as unknown:
        load_parser("tool", "hermess")
    message = str(unknown.value)
    assert "No tool parser 'hermess'. Did you mean 'hermes'?" in message
    assert "deepseek_v3" in message
    assert "echo" in message
    with pytest.raises(UnknownParserError, match="No reasoning parser 'hermes'") as unknown:
        load_parser("reasoning", "hermes")
    assert "qwen3" in str(unknown.value)
    with pytest.raises(UnknownParserError) as unknown:
        load_parser("tool", "zzzzzz")
    assert "Did you mean" not in str(unknown.value)
    with pytest.raises(UnknownParserError):
        load_parser("tool", "other-dist:echo")


def test_a_name_that_two_distributions_declare_must_be_qualified(install: Install) -> None:
    install("one-dist", {"tool": {"twice": "one_parser"}}, one_parser=ECHO)
    install("two-dist", {"tool": {"twice": "two_parser"}}, two_parser=ECHO.replace("Says", "Repeats"))
    with pytest.raises(AmbiguousParserError) as ambiguous:
        load_parser("tool", "twice")
    assert "'one-dist:twice' or 'two-dist:twice'" in str(ambiguous.value)
    assert load_parser("tool", "one-dist:twice").description == "Says what it hears."
    assert load_parser("tool", "two-dist:twice").description == "Repeats what it hears."
    listed = {info.name: info.error for info in list_parsers() if "twice" in info.name}
    assert listed == {"one-dist:twice": None, "two-dist:twice": None}


def test_the_same_distribution_seen_twice_is_one(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("one-dist", {"tool": {"once": "one_parser"}}, one_parser=ECHO)
    other = tmp_path / "again"
    other.mkdir()
    copied = other / "one_dist-1.0.dist-info"
    copied.mkdir()
    for file in (tmp_path / "one_dist-1.0.dist-info").iterdir():
        (copied / file.name).write_text(file.read_text())
    monkeypatch.syspath_prepend(str(other))
    assert load_parser("tool", "once").distribution == "one-dist"


@pytest.mark.parametrize(
    ("target", "source", "word"),
    [
        ("broken_parser", "import no_such_module_at_all", "ModuleNotFoundError"),
        ("broken_parser", "raise ValueError('not today')", "not today"),
        ("broken_parser:missing", ECHO, "AttributeError"),
        ("broken_parser", "x = 1", "derender_parse_delta"),
        ("broken_parser", ECHO.replace("(delta)", "(delta, nonsense)"), "nonsense"),
    ],
)
def test_broken_parsers_say_why_and_break_nothing_else(install: Install, target: str, source: str, word: str) -> None:
    install("broken-dist", {"tool": {"broken": target}}, broken_parser=source)
    with pytest.raises(BrokenParserError) as broken:
        load_parser("tool", "broken")
    assert word in str(broken.value)
    assert "broken-dist" in str(broken.value)
    errors = {(info.slot, info.name): info.error for info in list_parsers()}
    assert word in (errors.pop(("tool", "broken")) or "")
    assert errors["tool", "hermes"] is errors["reasoning", "qwen3"] is None


def test_a_parser_that_nobody_asked_for_is_not_imported(install: Install) -> None:
    install("broken-dist", {"tool": {"broken": "broken_parser"}}, broken_parser="raise ValueError")
    assert load_parser("tool", "hermes").distribution == "derender"
    assert "broken_parser" not in sys.modules
