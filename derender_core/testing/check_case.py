"""``check_case``: everything that must hold for a case, each thing with a verdict of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from derender_core.errors import ParserError
from derender_core.events import Event
from derender_core.message import Message, ToolCall, fold_message
from derender_core.pipeline import Pipeline
from derender_core.testing.cases import Case, Expected
from derender_core.testing.compare import Match, differences, match
from derender_core.testing.cuts import Cut
from derender_core.testing.laws import Sample, state_is_not_changed, state_survives_json
from derender_core.testing.open_case import MODES, Mode, OpenCase, open_case
from derender_core.testing.report import case_report, label_report, stream_report
from derender_core.testing.schema_fit import SCHEMA_EXTRA, can_check_schemas, misfits
from derender_core.testing.stream_faults import stream_faults
from derender_core.testing.trace import Failed, event_faults
from derender_core.tokenizer import ModelTokenizer

__all__ = ["CHECKS", "CaseReport", "CheckResult", "Status", "check_case"]

Status = Literal["pass", "fail", "warn", "skip"]

CHECKS: tuple[str, ...] = ("one-shot", "cuts", "state", "leaks", "arguments", "schema")
"""What is checked of a case: the message parsed at once is the expected one; every cut gives the same; the state
survives JSON; no marker comes out as text where none is expected; arguments are JSON objects and events well formed;
arguments fit the tool's JSON Schema."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was checked.

    Args:
        name: one of ``CHECKS``, or ``laws``.
        status: "warn" is for what people should look at, and fails nothing; "skip" for what could not be checked.
        detail: why, where it is not "pass".
    """

    name: str
    status: Status
    detail: str = ""


@dataclass(frozen=True)
class CaseReport:
    """A case that was checked.

    Args:
        case: the case.
        match: how near the message, parsed at once, is to the expected one. A "soft" match fails a strict case.
        message: that message; None when the parser failed.
        checks: the verdicts.
    """

    case: Case
    match: Match
    message: Message | None
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(check.status != "fail" for check in self.checks)

    @property
    def failures(self) -> list[CheckResult]:
        """What failed."""
        return [check for check in self.checks if check.status == "fail"]

    def check(self, name: str) -> CheckResult:
        """The verdict of this name; "skip" when it was not checked."""
        return next((check for check in self.checks if check.name == name), CheckResult(name, "skip"))


def check_case(
    case: Case,
    pipeline: Pipeline | None = None,
    *,
    modes: Sequence[Mode] = MODES,
    tokenizer: ModelTokenizer | None = None,
    seeds: int = 3,
    pairs: bool = False,
) -> CaseReport:
    """Check a case: one-shot, and at every cut with the state through JSON at each step.

    Args:
        case: the case.
        pipeline: the parsers; the installed ones that the case names, when left out.
        modes: the ways of streaming calls to try.
        tokenizer: cut at its tokens, too. Cases of token ids need it, unless theirs lies beside the corpus.
        seeds: how many random cuts.
        pairs: also every cut into two.

    Raises:
        CaseError: token ids without their tokenizer, or with another one.
        ParserLoadError: a parser that the case names cannot be loaded.
    """
    opened = open_case(case, pipeline, tokenizer=tokenizer)
    try:
        once = opened.extract()
    except ParserError as error:
        text = case_report(opened, "one-shot", [], str(error))
        skipped = [CheckResult(name, "skip", "the parser failed") for name in CHECKS[1:]]
        return CaseReport(case, "differs", None, (CheckResult("one-shot", "fail", text), *skipped))
    message = fold_message(once)
    checks = (
        _check_label(opened, message, once),
        *_check_streams(opened, once, message, opened.cuts(seeds=seeds, pairs=pairs), modes),
        _check_leaks(opened, message),
        _check_arguments(opened, once),
        _check_schema(case, message),
    )
    return CaseReport(case, match(case, message, opened.output.text), message, checks)


def _check_label(opened: OpenCase, message: Message, once: list[Event]) -> CheckResult:
    if opened.case.unlabelled:
        return CheckResult("one-shot", "skip", "the case is not labelled")
    wrong = differences(opened.case, message, opened.output.text)
    if not wrong:
        return CheckResult("one-shot", "pass")
    shown = [] if opened.case.alternatives else wrong  # what the table does not show
    report = case_report(opened, "one-shot", shown, label_report(opened.case, message, once))
    return CheckResult("one-shot", "fail", report)


def _check_streams(
    opened: OpenCase, once: list[Event], message: Message, cuts: Sequence[Cut], modes: Sequence[Mode]
) -> list[CheckResult]:
    """The cuts and the state; of each, the first failure."""
    failed: dict[str, str] = {}
    for mode in modes:
        for cut in cuts:
            name, text = _stream(opened, once, message, cut, mode)
            if text:
                failed.setdefault(name, text)
    state = _state_fault(opened)
    if state is not None and (state.about_state or "cuts" not in failed):  # else it is the same fault again
        failed.setdefault("state", case_report(opened, "its state", [], str(state)))
    return [CheckResult(name, "fail" if name in failed else "pass", failed.get(name, "")) for name in ("cuts", "state")]


def _stream(opened: OpenCase, once: list[Event], message: Message, cut: Cut, mode: Mode) -> tuple[str, str]:
    """Which check a stream fails, and the report; empty when it fails none."""
    how = f"streamed, {cut.name}"
    try:
        trace = opened.run(cut, mode=mode)
    except Failed as error:
        return ("state" if error.about_state else "cuts"), case_report(opened, how, [], str(error))
    wrong = stream_faults(opened.case, once, message, trace)
    return "cuts", case_report(opened, how, wrong, stream_report(trace, once)) if wrong else ""


def _state_fault(opened: OpenCase) -> Failed | None:
    sample = Sample(str(opened.case), opened.output, opened.request)
    try:
        state_is_not_changed(opened.pipeline, sample)
        state_survives_json(opened.pipeline, sample)
    except Failed as error:
        return error
    return None


def _check_leaks(opened: OpenCase, message: Message) -> CheckResult:
    """The parsers' markers must not come out as text more often than the case expects."""
    case = opened.case
    markers = dict.fromkeys(
        (*opened.pipeline.special_tokens(opened.request), *_openers(opened), *opened.request.tool_call_openers)
    )
    got = _texts(message.content, message.reasoning)
    allowed = [_texts(one.content, one.reasoning_content) for one in case.alternatives]
    leaked = [
        f"{marker!r} comes out as text"
        for marker in markers
        if marker.strip() and got.count(marker) > max((text.count(marker) for text in allowed), default=0)
    ]
    if not leaked or case.expected_error:
        return CheckResult("leaks", "pass" if not leaked else "skip", "the output is no valid answer" if leaked else "")
    return CheckResult("leaks", "warn" if case.unlabelled else "fail", "; ".join(leaked))


def _openers(opened: OpenCase) -> tuple[str, ...]:
    tool = opened.pipeline.tool
    return tool.tool_call_openers(opened.request) if tool is not None and opened.request.tools else ()


def _texts(*texts: str | None) -> str:
    return "\n".join(text or "" for text in texts)


def _check_arguments(opened: OpenCase, once: list[Event]) -> CheckResult:
    faults = event_faults(once, complete=True)
    if not faults:
        return CheckResult("arguments", "pass")
    events = "events:\n" + "\n".join(f"  {event!r}" for event in once)
    return CheckResult("arguments", "fail", case_report(opened, "one-shot", faults, events))


def _check_schema(case: Case, message: Message) -> CheckResult:
    """A model may write arguments that do not fit. It is the parser's fault only where the expected ones do."""
    if not can_check_schemas():
        return CheckResult("schema", "skip", f"needs jsonschema: install {SCHEMA_EXTRA}")
    faults = misfits(case, message.tool_calls)
    if not faults:
        return CheckResult("schema", "pass")
    expected = [misfits(case, _calls(one)) for one in case.alternatives]
    if [] in expected:
        return CheckResult("schema", "fail", "; ".join(faults))
    whose = "the expected arguments do not either: " if expected else ""
    return CheckResult("schema", "warn", whose + "; ".join(faults))


def _calls(expected: Expected) -> list[ToolCall]:
    return [ToolCall(call.name, json.dumps(call.arguments)) for call in expected.tool_calls]
