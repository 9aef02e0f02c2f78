"""Every rule of the wire protocol has a test. That the table in docs/wire.md is current is tested with all others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.fixture
def wire_rules(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import wire_rules

    yield wire_rules
    del sys.modules["wire_rules"]


def test_every_rule_has_a_test(wire_rules):
    held = wire_rules.marked_tests()
    assert [number for section in wire_rules.rules().values() for number in section if not held[number]] == []


def test_tests_name_only_rules_that_there_are(wire_rules):
    known = {number for section in wire_rules.rules().values() for number in section}
    unknown = {number: tests for number, tests in wire_rules.marked_tests().items() if number not in known}
    assert unknown == {}


def test_the_sections_are_those_of_the_protocol_and_their_rules_are_numbered_without_gaps(wire_rules):
    sections = wire_rules.rules()
    assert [title.split()[0] for title in sections] == [str(number) for number in range(1, 10)]
    for title, section in sections.items():
        assert list(section) == [f"{title.split()[0]}.{number}" for number in range(1, len(section) + 1)]
    # Those that the protocol numbers itself.
    numbered = {number for section in sections.values() for number in section}
    assert {f"4.{number}" for number in range(1, 9)} | {f"5.{number}" for number in range(1, 12)} <= numbered


def test_the_table_names_each_rule_and_its_tests(wire_rules):
    text = (SCRIPTS.parent / "docs" / "wire.md").read_text(encoding="utf-8")
    rows = list(wire_rules.rules_table(SCRIPTS.parent / "docs" / "wire.md"))
    assert "\n".join(rows) in text
    assert len(rows) > 100
