"""How a stream of a case differs from parsing its output at once, where it must not."""

from __future__ import annotations

import bisect
import json
from collections.abc import Sequence

from derender_core.events import Event, Reasoning, Text, ToolCallArguments, merge_events
from derender_core.message import Message, ToolCall, fold_message
from derender_core.testing.cases import Case
from derender_core.testing.compare import same_json
from derender_core.testing.trace import Trace, event_faults

__all__ = ["departs_at", "stream_faults"]


def stream_faults(case: Case, once: list[Event], message: Message, trace: Trace) -> list[str]:
    """How a stream differs from the one-shot parse; empty when it does not.

    Args:
        case: its tags say what a stream that sends arguments as they come may do.
        once: the events of the one-shot parse, neighbours joined.
        message: what they amount to.
        trace: the stream.
    """
    whole = trace.context.stream_tool_calls == "whole"
    clean = "announced" not in case.tags
    events = trace.events
    faults = event_faults(events, complete=whole or clean)
    if faults:
        return faults
    if whole:
        return [] if events == once else ["the events differ from those of the one-shot parse"]
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


def departs_at(trace: Trace, once: Sequence[Event]) -> int:
    """The number, from 1, of the first delta whose events lead away from those of the one-shot parse.

    Where all deltas agree as far as they go, it is the last one, behind which something is missing.
    """

    def departed(number: int) -> bool:
        return not _is_beginning(merge_events(event for step in trace.steps[:number] for event in step.events), once)

    return min(bisect.bisect_left(range(len(trace.steps) + 1), True, key=departed), len(trace.steps))


def _is_beginning(events: Sequence[Event], whole: Sequence[Event]) -> bool:
    if len(events) > len(whole) or list(events[:-1]) != list(whole[: len(events) - 1 if events else 0]):
        return False
    if not events:
        return True
    last, other = events[-1], whole[len(events) - 1]
    if isinstance(last, (Text, Reasoning)) and type(other) is type(last):
        return other.text.startswith(last.text)
    if isinstance(last, ToolCallArguments) and isinstance(other, ToolCallArguments):
        return last.index == other.index and other.fragment.startswith(last.fragment)
    return last == other
