"""Running golden cases: one-shot, and at every cut in both ways of streaming calls."""

from __future__ import annotations

from collections.abc import Sequence

from derender_core.events import Event
from derender_core.pipeline import Pipeline
from derender_core.testing.cases import Case
from derender_core.testing.check_case import check_case
from derender_core.testing.cuts import Cut
from derender_core.testing.open_case import MODES, Mode, open_case
from derender_core.testing.trace import Failed, Trace
from derender_core.tokenizer import ModelTokenizer

__all__ = ["assert_case", "case_cuts", "extract_case", "run_case"]

_ASSERTED = ("one-shot", "cuts", "state", "arguments")


def extract_case(
    case: Case, pipeline: Pipeline | None = None, *, tokenizer: ModelTokenizer | None = None
) -> list[Event]:
    """The events of the whole output, parsed at once, neighbours of one kind joined.

    Raises:
        CaseError, ParserLoadError: as for ``assert_case``.
        ParserError: a parser failed.
    """
    return open_case(case, pipeline, tokenizer=tokenizer).extract()


def run_case(
    case: Case,
    cut: Cut,
    pipeline: Pipeline | None = None,
    *,
    mode: Mode = "whole",
    round_trip: bool = True,
    tokenizer: ModelTokenizer | None = None,
) -> Trace:
    """Stream the output of a case in these pieces.

    Raises:
        Failed: the parser raised, changed a state, or made one that JSON changes.
        CaseError, ParserLoadError: as for ``assert_case``.
    """
    return open_case(case, pipeline, tokenizer=tokenizer).run(cut, mode=mode, round_trip=round_trip)


def case_cuts(
    case: Case,
    pipeline: Pipeline | None = None,
    *,
    tokenizer: ModelTokenizer | None = None,
    seeds: int = 3,
    pairs: bool = False,
) -> list[Cut]:
    """All cuts of a case's output, its own exact one included."""
    return open_case(case, pipeline, tokenizer=tokenizer).cuts(seeds=seeds, pairs=pairs)


def assert_case(
    case: Case,
    pipeline: Pipeline | None = None,
    *,
    modes: Sequence[Mode] = MODES,
    tokenizer: ModelTokenizer | None = None,
    seeds: int = 3,
    pairs: bool = False,
) -> None:
    """A case holds: one-shot and at every cut, with the state through JSON at each step.

    Args:
        case: the case.
        pipeline: the parsers; the installed ones that the case names, when left out.
        modes: the ways of streaming calls to try.
        tokenizer: cut at its tokens, too. Cases of token ids need it, unless theirs lies beside the corpus.
        seeds: how many random cuts.
        pairs: also every cut into two.

    Raises:
        Failed: it does not hold. The text shows the cut, the deltas, the events, the state, and what differs.
        CaseError: token ids without their tokenizer, or with another one.
        ParserLoadError: a parser that the case names cannot be loaded.
    """
    __tracebackhide__ = True
    report = check_case(case, pipeline, modes=modes, tokenizer=tokenizer, seeds=seeds, pairs=pairs)
    failed = [check for check in report.failures if check.name in _ASSERTED]
    if failed:
        more = f"\n(also failed: {', '.join(check.name for check in failed[1:])})" if len(failed) > 1 else ""
        raise Failed(failed[0].detail + more)
