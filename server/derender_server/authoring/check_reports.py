"""What `derender check` says: as a table, as JSON, as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from derender_core.message import Message
from derender_core.testing import CaseReport, CheckResult, CorpusReport
from derender_core.testing.check_corpus import COLUMNS

__all__ = ["as_junit", "as_record", "as_table"]

_MARKS = {"pass": "ok", "fail": "FAIL", "warn": "warn", "skip": "-"}
# What XML 1.0 cannot hold, however it is written.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# -- table -------------------------------------------------------------------------------------------------------------


def as_table(report: CorpusReport, corpus: Path, *, quiet: bool = False) -> str:
    """A line for each case and each law, the reports of what failed, and a summary."""
    parser = report.parser
    source = f" of {parser.distribution} {parser.version}" if parser.distribution else ""
    head = f"{parser.slot} parser {parser.name}{source}, {_count(len(report.cases), 'case')} of {corpus}"
    shown = [one for one in report.cases if not quiet or not _is_fine(one)]
    rows = [_row(one) for one in shown]
    parts = [head, *_block(["CASE", "MATCH", *(name.upper() for name in COLUMNS)], rows)]
    laws = [[law.name, _MARKS[law.status]] for law in report.laws if not quiet or law.status != "pass"]
    parts += _block([f"LAW, over the cases and {_count(report.soup, 'soup')} of markers", ""], laws)
    parts += [f"\n{text}" for text in _details(report)]
    return "\n".join([*parts, "", *_summary(report)])


def _is_fine(report: CaseReport) -> bool:
    return report.passed and all(check.status != "warn" for check in report.checks)


def _row(report: CaseReport) -> list[str]:
    return [report.case.id, report.match, *(_MARKS[report.check(name).status] for name in COLUMNS)]


def _block(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    if not rows:
        return
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    yield ""
    for row in [heads, *rows]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _details(report: CorpusReport) -> Iterator[str]:
    for one in report.cases:
        for check in one.checks:
            if check.status in ("fail", "warn"):
                yield f"{_MARKS[check.status]} {one.case.id}, {check.name}: {check.detail}"
    for law in report.laws:
        if law.status == "fail":
            yield f"FAIL {law.name}: {law.detail}"


def _summary(report: CorpusReport) -> Iterator[str]:
    total, good = len(report.cases), sum(one.passed for one in report.cases)
    matches = report.matches
    levels = [f"{matches[level]} {text}" for level, text in _LEVELS.items() if matches[level]]
    yield f"{good} of {_count(total, 'case')} hold; messages: {', '.join(levels) or 'none'}"
    held = sum(law.status == "pass" for law in report.laws)
    yield f"{held} of {_count(len(report.laws), 'law')} hold"
    for name, detail in _not_checked(report):
        yield f"not checked: {name}: {detail}"


_LEVELS = {
    "strict": "equal (strict)",
    "soft": "equal but for white space around (soft)",
    "differs": "different",
    "unlabelled": "unlabelled",
}


def _not_checked(report: CorpusReport) -> Iterator[tuple[str, str]]:
    """What was checked of no case at all, with the reason."""
    for name in COLUMNS:
        checks = [one.check(name) for one in report.cases]
        if checks and all(check.status == "skip" for check in checks):
            yield name, checks[0].detail


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# -- JSON --------------------------------------------------------------------------------------------------------------


def as_record(report: CorpusReport) -> dict[str, Any]:
    """The report as JSON."""
    parser = report.parser
    return {
        "parser": {
            "slot": parser.slot,
            "name": parser.name,
            "distribution": parser.distribution,
            "version": parser.version,
        },
        "passed": report.passed,
        "matches": dict(report.matches),
        "cases": [
            {
                "id": one.case.id,
                "where": one.case.where,
                "compare": one.case.compare,
                "match": one.match,
                "passed": one.passed,
                "checks": _records(one.checks),
                "message": None if one.message is None else message_record(one.message),
            }
            for one in report.cases
        ],
        "soup": report.soup,
        "laws": _records(report.laws),
    }


def _records(checks: Sequence[CheckResult]) -> dict[str, dict[str, str]]:
    return {
        check.name: {"status": check.status} | ({"detail": check.detail} if check.detail else {}) for check in checks
    }


def message_record(message: Message) -> dict[str, Any]:
    """A message as it came; the arguments of its calls as text."""
    return {
        "content": message.content,
        "reasoning_content": message.reasoning,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls],
    }


# -- JUnit -------------------------------------------------------------------------------------------------------------


def as_junit(report: CorpusReport) -> bytes:
    """The report as JUnit XML: a suite of cases and one of laws, and a test for each."""
    name = f"{report.parser.slot}:{report.parser.name}"
    root = Element("testsuites", name=f"derender check {name}")
    cases = SubElement(root, "testsuite", name=f"{name} cases")
    for one in report.cases:
        place = one.case.where.rpartition(":")[0] or name
        test = SubElement(cases, "testcase", classname=_xml(place), name=_xml(one.case.id))
        properties = SubElement(test, "properties")
        SubElement(properties, "property", name="match", value=one.match)
        SubElement(properties, "property", name="compare", value=one.case.compare)
        _add_failure(test, one.failures)
    laws = SubElement(root, "testsuite", name=f"{name} laws")
    for law in report.laws:
        test = SubElement(laws, "testcase", classname=name, name=law.name)
        _add_failure(test, [law] if law.status == "fail" else [])
    for suite in (cases, laws):
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
    document: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _add_failure(test: Element, failed: Sequence[CheckResult]) -> None:
    if failed:
        failure = SubElement(test, "failure", message=", ".join(check.name for check in failed))
        failure.text = _xml("\n\n".join(f"[{check.name}] {check.detail}" for check in failed))


def _xml(text: str) -> str:
    return _NO_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
