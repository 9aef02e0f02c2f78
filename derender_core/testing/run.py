"""Running golden cases: one-shot, and at every cut in both ways of streaming calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from derender_core.events import Event, merge_events
from derender_core.message import Message, ToolCall, fold_message
from derender_core.pipeline import Pipeline
from derender_core.testing.cases import Case, Expected, ExpectedCall
from derender_core.testing.cuts import Cut, all_cuts, cut_at
from derender_core.testing.trace import Failed, Trace, event_faults, feed
from derender_core.tokenizer import ModelTokenizer

__all__ = ["MODES", "assert_case", "differences", "extract_case", "run_case", "same_json"]

Mode = Literal["whole", "arguments"]
MODES: tuple[Mode, ...] = ("whole", "arguments")


def extract_case(case: Case, pipeline: Pipeline | None = None) -> list[Event]:
    """The events of the whole output, parsed at once, neighbours of one kind joined."""
    pipeline = pipeline or case.pipeline()
    return merge_events(pipeline.extract(case.whole, case.context(pipeline)))


def run_case(
    case: Case, cut: Cut, pipeline: Pipeline | None = None, *, mode: Mode = "whole", round_trip: bool = True
) -> Trace:
    """Stream the output of a case in these pieces.

    Raises:
        Failed: the parser raised, changed a state, or made one that JSON changes.
    """
    pipeline = pipeline or case.pipeline()
    return feed(pipeline, cut, case.context(pipeline, mode), round_trip=round_trip)


def case_cuts(case: Case, *, tokenizer: ModelTokenizer | None = None, seeds: int = 3, pairs: bool = False) -> list[Cut]:
    """All cuts of a case's output, its own exact one included."""
    cuts = list(all_cuts(case.whole, tokenizer=tokenizer, seeds=seeds, pairs=pairs))
    if case.deltas is not None:
        ends = [sum(map(len, case.deltas[:count])) for count in range(1, len(case.deltas))]
        cuts.append(cut_at(case.whole, ends, "as the case says"))
    return cuts


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
        tokenizer: cut at its tokens, too.
        seeds: how many random cuts.
        pairs: also every cut into two.

    Raises:
        Failed: it does not hold. The text shows the cut, the deltas, the events, the state, and what differs.
        ParserLoadError: a parser that the case names cannot be loaded.
    """
    __tracebackhide__ = True
    pipeline = pipeline or case.pipeline()
    once = extract_case(case, pipeline)
    message = fold_message(once)
    wrong = event_faults(once, complete=True) or differences(case, message)
    if wrong:
        raise Failed(_report(case, "one-shot", wrong, "events:\n" + "\n".join(f"  {event!r}" for event in once)))
    cuts = case_cuts(case, tokenizer=tokenizer, seeds=seeds, pairs=pairs)
    for mode in modes:
        for cut in cuts:
            try:
                trace = run_case(case, cut, pipeline, mode=mode)
            except Failed as error:
                raise Failed(_report(case, f"streamed, {cut.name}", [], str(error))) from error
            wrong = _stream_faults(case, once, message, trace)
            if wrong:
                raise Failed(_report(case, f"streamed, {cut.name}", wrong, trace.report()))


def _stream_faults(case: Case, once: list[Event], message: Message, trace: Trace) -> list[str]:
    """How a stream differs from the one-shot parse where it must not."""
    whole = trace.context.stream_tool_calls == "whole"
    clean = "announced" not in case.tags
    events = trace.events
    faults = event_faults(events, complete=whole or clean)
    if faults:
        return faults
    if whole:
        return (
            [] if events == once else [f"one-shot gives other events:\n{_lines(once)}", f"streamed:\n{_lines(events)}"]
        )
    streamed = fold_message(events)
    if clean:
        return _message_faults(streamed, message)
    faults = _text_fault("reasoning_content", streamed.reasoning, message.reasoning)
    if "malformed" in case.tags:
        return faults
    faults += _text_fault("content", streamed.content, message.content)
    rest = iter(streamed.tool_calls)
    if "cut" in case.tags and not all(any(_same_call(call, one) for one in rest) for call in message.tool_calls):
        faults.append(
            f"calls of the one-shot parse are missing: {streamed.tool_calls!r} against {message.tool_calls!r}"
        )
    return faults


def _message_faults(got: Message, expected: Message) -> list[str]:
    faults = _text_fault("content", got.content, expected.content)
    faults += _text_fault("reasoning_content", got.reasoning, expected.reasoning)
    same = len(got.tool_calls) == len(expected.tool_calls) and all(map(_same_call, got.tool_calls, expected.tool_calls))
    return faults if same else [*faults, f"tool_calls: got {got.tool_calls!r}, one-shot gives {expected.tool_calls!r}"]


def _text_fault(name: str, got: str | None, expected: str | None) -> list[str]:
    return [] if got == expected else [f"{name}: got {got!r}, one-shot gives {expected!r}"]


def _same_call(left: ToolCall, right: ToolCall) -> bool:
    if left.name != right.name or left.id != right.id:
        return False
    try:
        return same_json(json.loads(left.arguments), json.loads(right.arguments))
    except ValueError:
        return False


def differences(case: Case, message: Message) -> list[str]:
    """What a message lacks to be the one that a case expects; empty when it is right."""
    faults = [_against(case, message, expected) for expected in case.alternatives]
    if [] in faults:
        return []
    return (
        faults[0]
        if len(faults) == 1
        else [f"alternative {at}: {one}" for at, all_ in enumerate(faults, 1) for one in all_]
    )


def _against(case: Case, message: Message, expected: Expected) -> list[str]:
    soft = case.compare == "soft"
    faults: list[str] = []
    for name, got, wanted in (
        ("content", message.content, expected.content),
        ("reasoning_content", message.reasoning, expected.reasoning_content),
    ):
        if name in case.check and _text(got, soft) != _text(wanted, soft):
            faults.append(f"{name}\n  expected {wanted!r}\n  got      {got!r}")
    if "tool_calls" in case.check:
        faults += _call_faults(message.tool_calls, expected.tool_calls)
    return faults


def _text(text: str | None, soft: bool) -> str | None:
    return ((text or "").strip() if soft else text) or None


def _call_faults(got: tuple[ToolCall, ...], expected: tuple[ExpectedCall, ...]) -> list[str]:
    faults = []
    for at in range(max(len(got), len(expected))):
        left = got[at] if at < len(got) else None
        right = expected[at] if at < len(expected) else None
        if left is None or right is None or not _is_call(left, right):
            faults.append(f"tool_calls.{at}\n  expected {_show(right)}\n  got      {_show(left)}")
    return faults


def _is_call(got: ToolCall, expected: ExpectedCall) -> bool:
    if expected.arguments_text is not None and got.arguments != expected.arguments_text:
        return False
    return got.name == expected.name and same_json(json.loads(got.arguments), expected.arguments)


def _show(call: ToolCall | ExpectedCall | None) -> str:
    if call is None:
        return "no call"
    if isinstance(call, ToolCall):
        return f"{call.name} {call.arguments}"
    return f"{call.name} {call.arguments_text or json.dumps(call.arguments, ensure_ascii=False)}"


def same_json(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, types included: 1, 1.0 and true all differ. The order of keys is free."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def _lines(events: Sequence[Event]) -> str:
    return "\n".join(f"  {event!r}" for event in events)


def _report(case: Case, how: str, faults: list[str], details: str) -> str:
    head = [f"case {case}, {how}", f"output: {case.text!r}"]
    if case.notes:
        head.append(f"notes: {case.notes}")
    return "\n".join([*head, *faults, details])
