"""``check_corpus``: a parser held to all of a corpus: each case, and the laws over the cases and over marker soup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from derender_core.parser import Parser
from derender_core.testing.assert_laws import assert_laws, assert_samples, case_samples
from derender_core.testing.cases import Case
from derender_core.testing.check_case import CHECKS, CaseReport, CheckResult, check_case
from derender_core.testing.laws import LAWS, state_is_bounded
from derender_core.testing.selection import pipeline_for
from derender_core.testing.trace import Failed
from derender_core.tokenizer import ModelTokenizer

__all__ = ["COLUMNS", "CorpusReport", "check_corpus", "check_laws"]

COLUMNS: tuple[str, ...] = (*CHECKS, "laws")
"""What is checked of each case."""

_LAWS_OF_A_CASE = tuple(law for law in LAWS if law is not state_is_bounded)  # which is held to the corpus as a whole


@dataclass(frozen=True)
class CorpusReport:
    """A parser that was held to a corpus.

    Args:
        parser: the parser.
        cases: a report for each case.
        laws: a verdict for each law, over all cases and over soup.
        soup: how many soups there were.
    """

    parser: Parser
    cases: tuple[CaseReport, ...]
    laws: tuple[CheckResult, ...]
    soup: int

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(report.passed for report in self.cases) and all(law.status != "fail" for law in self.laws)

    @property
    def matches(self) -> Counter[str]:
        """How many cases match strictly, softly, not at all, or have no label."""
        return Counter(report.match for report in self.cases)


def check_corpus(
    parser: Parser,
    cases: Sequence[Case],
    *,
    tokenizer: ModelTokenizer | None = None,
    seeds: int = 3,
    pairs: bool = False,
) -> Iterator[CaseReport]:
    """Check the cases, one after another. Takes and raises what ``check_case`` does.

    Args:
        parser: the parser under test; where a case names another one for its slot, this one stands in.
        cases: the cases.
        tokenizer: cut outputs at its tokens, too.
        seeds: how many random cuts.
        pairs: also every cut into two.
    """
    for case in cases:
        report = check_case(case, pipeline_for(parser, case), tokenizer=tokenizer, seeds=seeds, pairs=pairs)
        yield replace(report, checks=(*report.checks, _laws_of_case(parser, case, tokenizer)))


def _laws_of_case(parser: Parser, case: Case, tokenizer: ModelTokenizer | None) -> CheckResult:
    samples = list(case_samples(parser, [case], tokenizer))
    if not samples:
        return CheckResult("laws", "skip", "the parser does not see this output as it is: no tools, or a forced call")
    try:
        assert_samples(parser, samples, laws=_LAWS_OF_A_CASE)
    except Failed as error:
        return CheckResult("laws", "fail", str(error))
    return CheckResult("laws", "pass")


def check_laws(
    parser: Parser,
    cases: Sequence[Case],
    *,
    tokenizer: ModelTokenizer | None = None,
    soup: int = 100,
    seed: int = 0,
) -> Iterator[CheckResult]:
    """Hold the parser to each law, over the outputs of the cases and over soup. Takes what ``assert_laws`` does."""
    for law in LAWS:
        try:
            assert_laws(parser, cases, soup=soup, seed=seed, laws=[law], tokenizer=tokenizer)
        except Failed as error:
            yield CheckResult(law.__name__, "fail", str(error))
        else:
            yield CheckResult(law.__name__, "pass")
