"""Testing parsers: golden cases, ways of cutting an output, and the laws that every parser keeps.

    cases = load_cases("golden.jsonl")
    for case in cases:
        assert_case(case)
    assert_laws(load_parser("tool", "my_parser"), cases=cases)

Nothing here needs pytest; failures are ``AssertionError``s whose text shows the cut, the deltas, the events, the state,
and what was expected.
"""

from derender_core.testing.assert_laws import assert_laws, assert_samples, case_samples, soup_samples
from derender_core.testing.cases import Case, CaseError, Expected, ExpectedCall, corpus_schema
from derender_core.testing.check_case import CHECKS, CaseReport, CheckResult, check_case
from derender_core.testing.check_corpus import CorpusReport, check_corpus, check_laws
from derender_core.testing.compare import Field, Match, compare_fields, differences, match, same_json
from derender_core.testing.corpus import CorpusFault, load_cases, validate_corpus
from derender_core.testing.cuts import (
    Cut,
    all_cuts,
    cut_at,
    cut_char,
    cut_one,
    cut_pairs,
    cut_random,
    cut_special,
    cut_token,
)
from derender_core.testing.laws import (
    LAWS,
    Law,
    Sample,
    cuts_do_not_matter,
    events_are_well_formed,
    extract_is_the_stream,
    never_raises,
    no_text_is_lost,
    state_is_bounded,
    state_is_not_changed,
    state_survives_json,
)
from derender_core.testing.open_case import OpenCase, open_case
from derender_core.testing.run import assert_case, case_cuts, extract_case, run_case
from derender_core.testing.selection import NoCasesError, cases_for, find_parser, pipeline_for
from derender_core.testing.soup import find_markers, marker_soup, plain_text
from derender_core.testing.trace import Failed, Parses, Trace, TraceStep, event_faults, feed

__all__ = [
    "CHECKS",
    "LAWS",
    "Case",
    "CaseError",
    "CaseReport",
    "CheckResult",
    "CorpusFault",
    "CorpusReport",
    "Cut",
    "Expected",
    "ExpectedCall",
    "Failed",
    "Field",
    "Law",
    "Match",
    "NoCasesError",
    "OpenCase",
    "Parses",
    "Sample",
    "Trace",
    "TraceStep",
    "all_cuts",
    "assert_case",
    "assert_laws",
    "assert_samples",
    "case_cuts",
    "case_samples",
    "cases_for",
    "check_case",
    "check_corpus",
    "check_laws",
    "compare_fields",
    "corpus_schema",
    "cut_at",
    "cut_char",
    "cut_one",
    "cut_pairs",
    "cut_random",
    "cut_special",
    "cut_token",
    "cuts_do_not_matter",
    "differences",
    "event_faults",
    "events_are_well_formed",
    "extract_case",
    "extract_is_the_stream",
    "feed",
    "find_markers",
    "find_parser",
    "load_cases",
    "marker_soup",
    "match",
    "never_raises",
    "no_text_is_lost",
    "open_case",
    "pipeline_for",
    "plain_text",
    "run_case",
    "same_json",
    "soup_samples",
    "state_is_bounded",
    "state_is_not_changed",
    "state_survives_json",
    "validate_corpus",
]
