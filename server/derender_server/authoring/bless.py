"""`derender check --bless`: what was got, as labels for people to review."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from derender_core.message import Message
from derender_core.testing import CaseReport, CorpusReport

__all__ = ["propose"]

_SUFFIX = ".proposed"
_LABELS = ("expected", "any_of", "expected_error", "unlabelled")


def propose(report: CorpusReport) -> Iterator[tuple[Path, int]]:
    """Write ``FILE.proposed`` for each file of the corpus that has cases which are unlabelled or labelled otherwise.

    It is the whole file, with new labels in the lines concerned, so that ``diff`` shows them and moving it over the
    corpus accepts them. A message that depends on how the output is cut is proposed to nobody.

    Yields:
        The file written, and how many labels in it are new.
    """
    by_file: dict[Path, dict[int, CaseReport]] = defaultdict(dict)
    for one in report.cases:
        if one.case.file is not None and _is_new(one):
            by_file[one.case.file][one.case.line] = one
    for file, found in by_file.items():
        lines = file.read_text(encoding="utf-8").split("\n")
        for number, one in found.items():
            lines[number - 1] = _labelled(lines[number - 1], one)
        target = file.with_name(file.name + _SUFFIX)
        target.write_text("\n".join(lines), encoding="utf-8")
        yield target, len(found)


def _is_new(report: CaseReport) -> bool:
    if report.message is None or any(report.check(name).status == "fail" for name in ("cuts", "state", "arguments")):
        return False
    return report.match == "unlabelled" or report.check("one-shot").status == "fail"


def _labelled(line: str, report: CaseReport) -> str:
    """The case with a new label where the old one stood."""
    assert report.message is not None
    record: dict[str, Any] = json.loads(line)
    label = {"expected": _label(report.message)}
    labelled: dict[str, Any] = {}
    for key, value in record.items():
        if key in _LABELS:
            labelled.update(label)
        else:
            labelled[key] = value
    return json.dumps(labelled, ensure_ascii=False)


def _label(message: Message) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in message.tool_calls]
    parts = {"content": message.content, "reasoning_content": message.reasoning, "tool_calls": calls}
    return {key: value for key, value in parts.items() if value}
