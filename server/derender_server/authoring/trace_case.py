"""`derender check --trace`: what a parser does with a case, delta by delta."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from derender_core.errors import ParserError
from derender_core.message import fold_message
from derender_core.parser import Parser
from derender_core.testing import Case, Cut, Failed, Trace, compare_fields, cut_random, match, open_case, pipeline_for
from derender_core.testing.report import side_by_side
from derender_core.tokenizer import ModelTokenizer
from derender_server.authoring.failure import CannotRun

__all__ = ["trace_case"]


def trace_case(
    case: Case, parser: Parser, tokenizer: ModelTokenizer | None, cut_name: str, mode: Literal["whole", "arguments"]
) -> str:
    """The deltas with their events and the state behind each, and the message beside the expected one.

    Raises:
        CannotRun: there is no such cut of this case.
    """
    opened = open_case(case, pipeline_for(parser, case), tokenizer=tokenizer)
    cuts = {cut.name: cut for cut in opened.cuts()}
    if cut_name.startswith("random, seed "):
        cuts[cut_name] = cut_random(opened.output, int(cut_name.rpartition(" ")[2]))
    if cut_name not in cuts:
        raise CannotRun(f"there is no cut {cut_name!r} of this case; there are {', '.join(map(repr, cuts))}")
    head = [
        f"case {case}, cut {cut_name!r}, stream_tool_calls={mode!r}",
        *_request(case, opened.request.reasoning_open),
    ]
    try:
        trace = opened.run(cuts[cut_name], mode=mode)
    except (Failed, ParserError) as error:
        return "\n".join([*head, str(error)])
    return "\n".join([*head, *_steps(cuts[cut_name], trace), *_message(case, trace, opened.output.text)])


def _request(case: Case, is_open: bool | None) -> Iterator[str]:
    tools = ", ".join(tool.name for tool in case.tools) or "none"
    yield f"tools: {tools}; tool_choice: {case.tool_choice}; reasoning_open: {is_open}"
    if case.notes:
        yield f"notes: {case.notes}"


def _steps(cut: Cut, trace: Trace) -> Iterator[str]:
    total = len(cut.deltas)
    for number, step in enumerate(trace.steps, 1):
        end = f"  final, finish_reason={step.delta.finish_reason!r}" if step.delta.final else ""
        marks = "".join(f"  [token {mark.token_id}]" for mark in step.delta.specials)
        yield f"\ndelta {number} of {total}: {step.delta.text!r}{marks}{end}"
        for event in step.events:
            yield f"  -> {event!r}"
        yield f"  state {json.dumps(step.state, ensure_ascii=False)}"


def _message(case: Case, trace: Trace, output: str) -> Iterator[str]:
    message = fold_message(trace.events)
    yield f"\nmessage: {match(case, message, output)}"
    if not case.alternatives:
        yield f"  {message!r}"
    for expected in case.alternatives:
        yield side_by_side(compare_fields(case, message, expected))
