"""The golden cases at every cut, and the laws."""

from pathlib import Path

import pytest

from derender_core import load_parser
from derender_core.testing import LAWS, Case, Law, assert_case, assert_laws, load_cases

CASES = load_cases(Path(__file__).parent / "golden.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert_case(case, pairs=True)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law) -> None:
    assert_laws(load_parser("tool", "example_xml"), CASES, markers=("<call ", "</call>", '<arg name="a">'), laws=[law])


def test_a_state_from_outside_is_checked() -> None:
    parser = load_parser("tool", "example_xml")
    assert parser.check_state({"phase": "call", "buffer": "<call name", "ahead": 6}) is None
    assert "ahead" in (parser.check_state({"phase": "call", "buffer": "<call", "ahead": 6}) or "")
    assert "phase" in (parser.check_state({"phase": "nowhere"}) or "")
