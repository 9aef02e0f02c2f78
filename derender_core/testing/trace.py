"""Feeding deltas to a parser, with everything that must hold at each step checked and remembered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from derender_core.errors import ParserError
from derender_core.events import Event, Reasoning, Text, ToolCallArguments, ToolCallEnd, ToolCallStart, merge_events
from derender_core.hookspecs import State, Step
from derender_core.inputs import Delta, ParseContext
from derender_core.testing.cuts import Cut

__all__ = ["Failed", "Parses", "Trace", "TraceStep", "event_faults", "feed"]


class Parses(Protocol):
    """What can be fed: a ``Parser`` or a ``Pipeline``."""

    def parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Parse the next delta."""

    def extract(self, output: Delta, context: ParseContext) -> list[Event]:
        """Parse a whole output."""

    def check_state(self, state: State) -> str | None:
        """Say what is wrong with a state from outside."""

    def special_tokens(self, context: ParseContext) -> tuple[str, ...]:
        """The special tokens that it must see."""


class Failed(AssertionError):  # noqa: N818 - it is an assertion that failed, and pytest shows its text as such
    """A case or a law does not hold. The text is the whole report.

    Args:
        text: the report.
        about_state: whether it is the state that is wrong: no JSON, changed by JSON or by the parser, or refused.
    """

    def __init__(self, text: str, *, about_state: bool = False) -> None:
        super().__init__(text)
        self.about_state = about_state


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One delta, and what it gave."""

    delta: Delta
    events: tuple[Event, ...]
    state: State


@dataclass
class Trace:
    """A stream, delta by delta.

    Args:
        cut: how the output was cut.
        context: the request.
        steps: what each delta gave.
    """

    cut: Cut
    context: ParseContext
    steps: list[TraceStep] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        """All events, neighbours of one kind joined."""
        return merge_events(event for step in self.steps for event in step.events)

    @property
    def largest_state(self) -> int:
        """Characters of the largest state, as JSON."""
        return max((len(json.dumps(step.state, ensure_ascii=False)) for step in self.steps), default=0)

    def report(self, shown: int = 12, at: int | None = None) -> str:
        """The deltas with what they gave, the state, and the events so far.

        Args:
            shown: how many deltas at most.
            at: the number, from 1, of the delta that matters; it is marked and the report ends there. The last one
                when left out.
        """
        total, end = len(self.cut.deltas), len(self.steps) if at is None else at
        lines = [f"cut: {self.cut.name} ({total} deltas), stream_tool_calls={self.context.stream_tool_calls!r}"]
        begin = max(0, end - shown)
        if begin:
            lines.append(f"  ... {begin} deltas before")
        for number, step in enumerate(self.steps[begin:end], begin + 1):
            mark = ">" if number == at else " "
            lines.append(f"{mark} delta {number} of {total}: {step.delta.text!r}{_end(step.delta)}")
            lines.extend(f"      -> {event!r}" for event in step.events)
        if self.steps[:end]:
            lines.append("state: " + json.dumps(self.steps[end - 1].state, ensure_ascii=False))
        lines.append("events so far:")
        so_far = merge_events(event for step in self.steps[:end] for event in step.events)
        lines.extend(f"  {event!r}" for event in so_far)
        return "\n".join(lines)


def _end(delta: Delta) -> str:
    return f" final, finish_reason={delta.finish_reason!r}" if delta.final else ""


def feed(parser: Parses, cut: Cut, context: ParseContext, *, round_trip: bool = True) -> Trace:
    """Feed the deltas of a cut, one after another.

    At each step: the parser does not raise, the state it was given is unchanged, the new state is the same after JSON,
    and its own ``check_state`` finds nothing wrong with it.

    Args:
        parser: a parser or a pipeline.
        cut: the deltas.
        context: the request.
        round_trip: hand the state in as it comes back from JSON; else the very object that the parser returned.

    Raises:
        Failed: one of these does not hold.
    """
    trace = Trace(cut, context)
    state: State | None = None
    before = "null"
    for delta in cut.deltas:
        try:
            step = parser.parse_delta(state, delta, context)
        except ParserError as error:
            raise Failed(f"raised at delta {delta!r}: {error}\n{trace.report()}") from error
        if json.dumps(state) != before:
            raise Failed(
                f"parse_delta changed the state that it was given, at delta {delta!r}\n{trace.report()}",
                about_state=True,
            )
        trace.steps.append(TraceStep(delta, step.events, step.state))
        before, carried = _carry(step.state, trace)
        state = carried if round_trip else step.state
        wrong = parser.check_state(carried)
        if wrong:
            raise Failed(f"check_state refuses the parser's own state: {wrong}\n{trace.report()}", about_state=True)
    return trace


def _carry(state: State, trace: Trace) -> tuple[str, State]:
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        trace.steps[-1] = TraceStep(trace.steps[-1].delta, trace.steps[-1].events, {})
        raise Failed(f"the state is no JSON: {error}: {state!r}\n{trace.report()}", about_state=True) from error
    carried = json.loads(text)
    if carried != state or not isinstance(carried, dict):
        raise Failed(f"the state changes in JSON: {state!r} became {carried!r}\n{trace.report()}", about_state=True)
    return text, carried


def event_faults(events: Sequence[Event], *, complete: bool) -> list[str]:
    """What is wrong with a list of events.

    Args:
        events: the events of one output.
        complete: every call that was begun must be ended, with arguments that are one JSON object.
    """
    faults: list[str] = []
    arguments: dict[int, str] = {}
    open_call: int | None = None
    for at, event in enumerate(events):
        if isinstance(event, (Text, Reasoning)):
            if not event.text:
                faults.append(f"event {at} is empty: {event!r}")
            continue
        if isinstance(event, ToolCallStart):
            if event.index != len(arguments):
                faults.append(f"event {at} should begin call {len(arguments)}: {event!r}")
            if not event.name:
                faults.append(f"event {at} begins a call without a name: {event!r}")
            if complete and open_call is not None:
                faults.append(f"event {at} begins a call before call {open_call} ended")
            arguments[event.index], open_call = "", event.index
        elif event.index != open_call:
            faults.append(f"event {at} belongs to no open call: {event!r}")
        elif isinstance(event, ToolCallArguments):
            if not event.fragment:
                faults.append(f"event {at} is empty: {event!r}")
            arguments[event.index] += event.fragment
        elif isinstance(event, ToolCallEnd):
            if complete and not _is_object(arguments[event.index]):
                faults.append(f"the arguments of call {event.index} are no JSON object: {arguments[event.index]!r}")
            open_call = None
    if complete and open_call is not None:
        faults.append(f"call {open_call} was not ended")
    return faults


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except ValueError:
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
