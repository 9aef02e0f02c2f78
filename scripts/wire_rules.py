"""The rules of the wire protocol and the tests that hold them, for the table of ``docs/wire.md``.

A test names the rules that it holds: ``@pytest.mark.rule("4.5")``. What the rules say is in ``tests/wire_rules.toml``.
Tests are read and not imported. ``scripts/update_docs.py`` writes the table.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

__all__ = ["marked_tests", "rules", "rules_table"]

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"


def rules() -> dict[str, dict[str, str]]:
    """What the rules say, by number, by section."""
    sections = tomllib.loads((TESTS / "wire_rules.toml").read_text(encoding="utf-8"))
    return {
        title: {f"{title.split()[0]}.{number}": text for number, text in section.items()}
        for title, section in sections.items()
    }


def marked_tests() -> dict[str, list[tuple[Path, str]]]:
    """The tests that hold a rule, as file and name, by the rule's number."""
    found: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in _numbers(node):
                    found[number].append((file, node.name))
    return found


def _numbers(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
            for argument in decorator.args:
                yield ast.literal_eval(argument)


def rules_table(file: Path) -> Iterator[str]:  # noqa: ARG001 - every table is asked so
    """All rules with their tests."""
    tests = marked_tests()
    yield "| rule | | held by |"
    yield "|---|---|---|"
    for title, section in rules().items():
        yield f"| **{title.split()[0]}** | **{title.partition(' ')[2]}** | |"
        for number, text in section.items():
            yield f"| {number} | {text} | {'<br>'.join(_holders(tests[number]))} |"


def _holders(tests: list[tuple[Path, str]]) -> Iterator[str]:
    names: dict[Path, list[str]] = defaultdict(list)
    for file, name in tests:
        names[file].append(f"`{name}`")
    for file, found in names.items():
        yield f"{file.relative_to(TESTS).as_posix()}: {', '.join(found)}"
