"""Which parser is meant, and which cases of a corpus are for it."""

from __future__ import annotations

from collections.abc import Iterable

from derender_core.errors import DerenderError, ParserLoadError, UnknownParserError
from derender_core.pipeline import Pipeline
from derender_core.registry import GROUPS, Parser, Slot, load_parser
from derender_core.testing.cases import Case

__all__ = ["NoCasesError", "cases_for", "find_parser", "pipeline_for"]


class NoCasesError(DerenderError, LookupError):
    """A corpus holds no case for a parser."""


def find_parser(name: str) -> Parser:
    """An installed parser by its name; ``tool:NAME`` or ``reasoning:NAME`` where both slots have one of that name.

    Raises:
        ParserLoadError: there is none, or it cannot be loaded, or both slots have one.
    """
    slot, _, rest = name.partition(":")
    if slot in GROUPS and rest:
        return load_parser("tool" if slot == "tool" else "reasoning", rest)
    found: list[Parser] = []
    errors: list[UnknownParserError] = []
    for one in GROUPS:
        try:
            found.append(load_parser(one, name))
        except UnknownParserError as error:
            errors.append(error)
    if len(found) > 1:
        raise ParserLoadError(
            f"There is a tool parser and a reasoning parser {name!r}; say tool:{name} or reasoning:{name}."
        )
    if not found:
        near = next((error for error in errors if "Did you mean" in str(error)), errors[0])
        raise near
    return found[0]


def cases_for(parser: Parser, cases: Iterable[Case], *, every: bool = False) -> list[Case]:
    """The cases that name this parser, or another name of it, or no parser at all in either slot.

    Args:
        parser: the parser.
        cases: the corpus.
        every: take all cases; the parser stands in for those that they name.

    Raises:
        NoCasesError: there is none.
    """
    cases = list(cases)
    found = cases if every else [case for case in cases if _is_for(parser, case)]
    if not found:
        names = sorted({name for case in cases if (name := getattr(case.parsers, parser.slot))})
        raise NoCasesError(
            f"the corpus holds no case for the {parser.slot} parser {parser.name!r}; its {len(cases)} cases are for "
            f"{', '.join(names) or 'parsers of the other slot'}. All of them can be run with --all-cases"
        )
    return found


def _is_for(parser: Parser, case: Case) -> bool:
    named: str | None = getattr(case.parsers, parser.slot)
    if named is None:
        return case.parsers.tool is None and case.parsers.reasoning is None
    return named == parser.name or _plugin(parser.slot, named) is parser.plugin


def _plugin(slot: Slot, name: str) -> object:
    try:
        return load_parser(slot, name).plugin
    except ParserLoadError:
        return None


def pipeline_for(parser: Parser, case: Case) -> Pipeline:
    """This parser in its slot, and in the other one what the case names.

    Raises:
        ParserLoadError: the other parser cannot be loaded.
    """
    if parser.slot == "tool":
        name = case.parsers.reasoning
        return Pipeline(parser, load_parser("reasoning", name) if name else None)
    name = case.parsers.tool
    return Pipeline(load_parser("tool", name) if name else None, parser)
