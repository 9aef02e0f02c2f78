"""Every installed parser keeps the laws, over its golden cases and over marker soup."""

from pathlib import Path

import pytest

from derender_core import list_parsers, load_parser
from derender_core.testing import LAWS, Case, Law, assert_laws, load_cases

CASES = load_cases(Path(__file__).parent / "data")
PARSERS = [pytest.param(info.slot, info.name, id=f"{info.slot}-{info.name}") for info in list_parsers()]


def cases_of(slot: str, name: str) -> list[Case]:
    """The golden cases of a parser; an alias gets those of the parser that it stands for."""
    plugin = load_parser(slot, name).plugin
    infos = [info for info in list_parsers() if info.slot == slot and not info.error]
    names = [info.name for info in infos if load_parser(slot, info.name).plugin is plugin]
    return [case for case in CASES if getattr(case.parsers, slot) in names]


def test_every_parser_loads() -> None:
    assert [info for info in list_parsers() if info.error] == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("slot", "name"), PARSERS)
def test_law(slot: str, name: str, law: Law) -> None:
    assert_laws(load_parser(slot, name), cases_of(slot, name), laws=[law])


@pytest.mark.parametrize(("slot", "name"), PARSERS)
def test_has_golden_cases(slot: str, name: str) -> None:
    assert len(cases_of(slot, name)) >= 25
