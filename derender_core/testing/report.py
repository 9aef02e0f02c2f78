"""What a failed case looks like: expected and got side by side, the cut, the deltas, the events and the state."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from derender_core.events import Event
from derender_core.message import Message
from derender_core.testing.cases import Case
from derender_core.testing.compare import Field, compare_fields
from derender_core.testing.open_case import OpenCase
from derender_core.testing.stream_faults import departs_at
from derender_core.testing.trace import Trace

__all__ = ["case_report", "label_report", "side_by_side", "stream_report"]

_SIGNS = {"strict": "=", "soft": "~", "differs": "≠"}
_NARROWEST, _WIDEST = 80, 160


def case_report(opened: OpenCase, how: str, faults: Sequence[str], details: str) -> str:
    """A failed case.

    Args:
        opened: the case.
        how: how it was parsed.
        faults: what is wrong.
        details: what came.
    """
    case = opened.case
    output = opened.output
    head = [f"case {case}, {how}", f"output: {output.text!r}, finish_reason={output.finish_reason!r}"]
    if case.notes:
        head.append(f"notes: {case.notes}")
    return "\n".join([*head, *faults, details])


def label_report(case: Case, message: Message, events: Sequence[Event]) -> str:
    """The message beside each of those that the case expects, and the events that it was made of."""
    tables = [
        side_by_side(compare_fields(case, message, expected), title=f"alternative {at}" if case.any_of else "")
        for at, expected in enumerate(case.alternatives, 1)
    ]
    return "\n".join([*tables, "events:", *(f"  {event!r}" for event in events)])


def stream_report(trace: Trace, once: Sequence[Event]) -> str:
    """A stream up to the delta that leads away from the one-shot parse, and the events of both side by side."""
    rows = []
    for at in range(max(len(once), len(trace.events))):
        left = repr(once[at]) if at < len(once) else "nothing more"
        right = repr(trace.events[at]) if at < len(trace.events) else "nothing more"
        rows.append(Field(f"event {at}", left, right, "strict" if left == right else "differs"))
    table = side_by_side(rows, heads=("one-shot", "streamed"))
    return f"{trace.report(at=departs_at(trace, once))}\n{table}"


def side_by_side(fields: Sequence[Field], *, title: str = "", heads: tuple[str, str] = ("expected", "got")) -> str:
    """A table of two columns: ``=`` equal, ``~`` equal but for white space around it, ``≠`` different.

    As wide as the terminal, within reason; what is longer goes on in the next line.
    """
    names = max((len(field.name) for field in fields), default=0)
    names = max(names, len(title))
    room = min(max(shutil.get_terminal_size((110, 24)).columns, _NARROWEST), _WIDEST)
    width = (room - names - 7) // 2
    lines = [f"  {title:<{names}}  {heads[0]:<{width}}   {heads[1]}"]
    for field in fields:
        left, right = _wrapped(field.expected, width), _wrapped(field.got, width)
        for at in range(max(len(left), len(right))):
            name, sign = (field.name, _SIGNS[field.match]) if at == 0 else ("", " ")
            cells = [part[at] if at < len(part) else "" for part in (left, right)]
            lines.append(f"  {name:<{names}}  {cells[0]:<{width}} {sign} {cells[1]}".rstrip())
    if any(field.match == "soft" for field in fields):
        lines.append("  ~ equal but for white space around it (soft)")
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]
