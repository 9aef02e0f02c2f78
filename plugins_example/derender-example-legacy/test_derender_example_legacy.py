"""The golden cases at every cut, and the laws but the one that replay breaks by its nature."""

from pathlib import Path

import pytest

from derender_core import load_parser
from derender_core.testing import LAWS, Case, Law, assert_case, assert_laws, load_cases

CASES = load_cases(Path(__file__).parent / "golden.jsonl")
HELD = [law for law in LAWS if law.__name__ != "state_is_bounded"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert_case(case, pairs=True)


@pytest.mark.parametrize("law", HELD, ids=lambda law: law.__name__)
def test_law(law: Law) -> None:
    assert_laws(load_parser("reasoning", "example_legacy"), CASES, soup=40, laws=[law])


def test_a_state_from_outside_is_checked() -> None:
    parser = load_parser("reasoning", "example_legacy")
    assert parser.check_state({"deltas": [["<scratch", []]]}) is None
    assert parser.check_state({"deltas": ["<scratch"]})
    assert parser.check_state({"place": "inside"})
