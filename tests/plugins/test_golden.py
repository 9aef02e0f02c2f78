"""Every golden case, one-shot and at every cut, with the state through JSON at each step."""

from pathlib import Path

import pytest

from derender_core.testing import Case, assert_case, load_cases

DATA = Path(__file__).parent.parent / "data"
CASES = load_cases(DATA)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.where.partition('.')[0]}-{case.id}" for case in CASES])
def test_case(case: Case) -> None:
    assert_case(case, pairs=True)


@pytest.mark.parametrize("file", sorted(DATA.glob("*.jsonl")), ids=lambda file: file.stem)
def test_corpora_are_not_thin(file: Path) -> None:
    assert len(load_cases(file)) >= 25
