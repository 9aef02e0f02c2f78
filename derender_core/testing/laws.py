"""The laws: what holds for every parser and every output. Each is a function of a parser (or a pipeline) and a sample.

1. ``cuts_do_not_matter``: any cut of the output gives the same events.
2. ``extract_is_the_stream``: parsing at once gives what streaming gives.
3. ``state_survives_json``: carrying the state through JSON at every step changes nothing.
4. ``state_is_not_changed``: the state handed in is left alone, and the same delta on it gives the same step again.
5. ``never_raises``: whatever the output, in both ways of streaming calls.
6. ``no_text_is_lost``: prose comes back unchanged, and no content or reasoning comes out that was not in the output, in
   its order. Between the two the order is free: text whose fate is open waits while later reasoning goes out.
7. ``state_is_bounded``: by the longest unfinished unit; it does not grow with the output.
8. ``events_are_well_formed``: Start, Arguments, End, in this order; indexes 0, 1, 2, ...; arguments are JSON objects.

With ``stream_tool_calls="arguments"`` a call that turns out cut or malformed was announced and cannot be taken back. So
there, laws 1, 2 and 8 are held to outputs whose calls are complete and valid (``Sample.clean``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from derender_core.errors import ParserError
from derender_core.events import Event, Reasoning, Text, ToolCallArguments, merge_events
from derender_core.hookspecs import State, Step
from derender_core.inputs import Delta, ParseContext
from derender_core.testing.cuts import all_cuts, cut_at, cut_char, cut_one, cut_random
from derender_core.testing.soup import plain_text
from derender_core.testing.trace import Failed, Parses, Trace, event_faults, feed

__all__ = [
    "LAWS",
    "Law",
    "Sample",
    "cuts_do_not_matter",
    "events_are_well_formed",
    "extract_is_the_stream",
    "never_raises",
    "no_text_is_lost",
    "state_is_bounded",
    "state_is_not_changed",
    "state_survives_json",
]


@dataclass(frozen=True)
class Sample:
    """An output to hold a law to.

    Args:
        label: where it comes from, for reports.
        output: the whole output, final.
        context: the request, with ``stream_tool_calls="whole"``.
        clean: its calls are complete and valid.
    """

    label: str
    output: Delta
    context: ParseContext
    clean: bool = False

    def __str__(self) -> str:
        context = self.context
        return (
            f"{self.label}\noutput: {self.output.text!r}, finish_reason={self.output.finish_reason!r}\n"
            f"tools={sorted(context.tool_names)}, tool_choice={context.tool_choice!r}, "
            f"reasoning_open={context.reasoning_open}, tool_call_openers={context.tool_call_openers}"
        )

    @property
    def arguments_context(self) -> ParseContext:
        """The request, with calls sent as they come."""
        return replace(self.context, stream_tool_calls="arguments")


Law = Callable[[Parses, Sample], None]


def cuts_do_not_matter(parser: Parses, sample: Sample) -> None:
    """Any cut of the output gives the same events.

    Raises:
        Failed: two cuts disagree.
    """
    _hold_cuts(parser, sample, sample.context)
    if sample.clean:
        _hold_cuts(parser, sample, sample.arguments_context)


def _hold_cuts(parser: Parses, sample: Sample, context: ParseContext) -> None:
    first: Trace | None = None
    for cut in all_cuts(sample.output):
        trace = feed(parser, cut, context)
        if first is None:
            first = trace
        elif trace.events != first.events:
            raise Failed(f"{_disagree(first.events, trace.events)}\n{first.report()}\n{trace.report()}")


def extract_is_the_stream(parser: Parses, sample: Sample) -> None:
    """Parsing at once gives what streaming gives: the same events; for clean outputs also with arguments streamed.

    Raises:
        Failed: they disagree.
    """
    once = merge_events(parser.extract(sample.output, sample.context))
    contexts = [sample.context, sample.arguments_context] if sample.clean else [sample.context]
    for context in contexts:
        trace = feed(parser, cut_char(sample.output), context)
        streamed = trace.events
        if _same_arguments(once) != _same_arguments(streamed):
            raise Failed(f"{_disagree(once, streamed)}\n{trace.report()}")


def _same_arguments(events: Iterable[Event]) -> list[Event]:
    """The events with arguments written in one way, since a stream may have sent what was re-serialised at once."""
    return [
        ToolCallArguments(event.index, _dump(event.fragment)) if isinstance(event, ToolCallArguments) else event
        for event in events
    ]


def _dump(text: str) -> str:
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return text


def state_survives_json(parser: Parses, sample: Sample) -> None:
    """Carrying the state through JSON at every step changes nothing, and the parser accepts its own states.

    Raises:
        Failed: a state is no JSON, changes in it, is refused by ``check_state``, or leads elsewhere.
    """
    for context in (sample.context, sample.arguments_context):
        cut = cut_char(sample.output)
        carried = feed(parser, cut, context, round_trip=True)
        kept = feed(parser, cut, context, round_trip=False)
        if carried.steps != kept.steps:
            raise Failed(f"the state leads elsewhere after JSON\n{kept.report()}\n{carried.report()}")


def state_is_not_changed(parser: Parses, sample: Sample) -> None:
    """The state handed in is left alone, and the same delta on it gives the same step again.

    Raises:
        Failed: a state was changed, or two equal calls gave different steps.
    """
    for context in (sample.context, sample.arguments_context):
        state: State | None = None
        for delta in cut_random(sample.output, 1).deltas:
            before = json.dumps(state)
            step = _parse(parser, state, delta, context)
            again = _parse(parser, state, delta, context)
            if json.dumps(state) != before:
                raise Failed(f"at delta {delta!r} the state {before} was changed to {json.dumps(state)}")
            if step != again:
                raise Failed(f"at delta {delta!r} two equal calls gave\n  {step!r}\n  {again!r}")
            state = step.state


def _parse(parser: Parses, state: State | None, delta: Delta, context: ParseContext) -> Step:
    try:
        return parser.parse_delta(state, delta, context)
    except ParserError as error:
        raise Failed(f"at delta {delta!r}: {error}") from error


def never_raises(parser: Parses, sample: Sample) -> None:
    """No output makes the parser raise, at once or in pieces, whatever the finish reason.

    Raises:
        Failed: it raised.
    """
    for reason in ("stop", "length", None):
        output = structs.replace(sample.output, finish_reason=reason)
        try:
            parser.extract(output, sample.context)
        except ParserError as error:
            raise Failed(f"extract, finish_reason={reason!r}: {error}") from error
        for context in (sample.context, sample.arguments_context):
            for cut in (cut_one(output), cut_one(output, flush=True), cut_random(output, 2)):
                feed(parser, cut, context)


def no_text_is_lost(parser: Parses, sample: Sample) -> None:
    """Prose comes back unchanged; of any other output, all content was in it, in its order, and so was all reasoning.

    In front of an answer that is left whole, the marker may be given back with which the prompt opened reasoning.

    Raises:
        Failed: text was lost, made up, or moved.
    """
    prose = plain_text(len(sample.output.text), words=12)
    events = feed(parser, cut_random(Delta(prose, final=True, finish_reason="stop"), 3), sample.context).events
    if _own(events, prose, parser, sample) not in ([Text(prose)], [Reasoning(prose)]):
        raise Failed(
            f"prose did not come back unchanged, reasoning_open={sample.context.reasoning_open}\n{prose!r}\n{events!r}"
        )
    for context in (sample.context, sample.arguments_context):
        trace = feed(parser, cut_char(sample.output), context)
        places: dict[type[Event], int] = {Text: 0, Reasoning: 0}
        for event in _own(trace.events, sample.output.text, parser, sample):
            if not isinstance(event, (Text, Reasoning)):
                continue
            for char in event.text:
                at = places[type(event)] = sample.output.text.find(char, places[type(event)]) + 1
                if not at:
                    raise Failed(f"this is not in the output, or not in this order: {event!r}\n{trace.report()}")


def _own(events: Sequence[Event], output: str, parser: Parses, sample: Sample) -> list[Event]:
    """The events without a marker of the prompt in front of the whole output."""
    if len(events) == 1 and isinstance(events[0], Text) and sample.context.reasoning_open:
        given_back = events[0].text.removesuffix(output)
        if given_back in parser.special_tokens(sample.context) and given_back + output == events[0].text:
            return [Text(output)] if output else []
    return list(events)


def state_is_bounded(parser: Parses, sample: Sample) -> None:
    """The state is bounded by the longest unfinished unit: fifty times a clean output needs no more room than one.

    Raises:
        Failed: the state grows with the output.
    """
    prose = plain_text(7, words=600)
    _hold_bound(parser, Sample("long prose", Delta(prose, final=True), sample.context), 1000)
    if sample.clean:
        once = feed(parser, cut_char(sample.output), sample.context).largest_state
        text = sample.output.text
        repeated = replace(sample, label=f"50 times: {sample.label}", output=Delta(text * 50, final=True))
        _hold_bound(parser, repeated, 2 * (once + len(json.dumps(text, ensure_ascii=False))) + 200)


def _hold_bound(parser: Parses, sample: Sample, bound: int) -> None:
    size = len(sample.output.text)
    cut = cut_at(sample.output, range(16, size, 16), "16 characters")
    for context in (sample.context, sample.arguments_context):
        trace = feed(parser, cut, context)
        if trace.largest_state > bound:
            raise Failed(
                f"{sample.label}: over {size} characters of output the state reached {trace.largest_state}, "
                f"more than {bound}\n"
                f"{trace.report(shown=4)}"
            )


def events_are_well_formed(parser: Parses, sample: Sample) -> None:
    """Start before Arguments before End, indexes in order, nothing empty, arguments that are JSON objects.

    Raises:
        Failed: an event stands where it must not.
    """
    for context in (sample.context, sample.arguments_context):
        complete = sample.clean or context.stream_tool_calls == "whole"
        trace = feed(parser, cut_random(sample.output, 4), context)
        events = [event for step in trace.steps for event in step.events]
        faults = event_faults(events, complete=complete)
        if faults:
            raise Failed("\n".join([*faults, trace.report()]))


def _disagree(left: Sequence[Event], right: Sequence[Event]) -> str:
    """Where two lists of events part, side by side."""
    at = next(
        (i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), min(len(left), len(right))
    )
    shown = [repr(events[at]) if at < len(events) else "nothing more" for events in (left, right)]
    return f"they part at event {at}:\n  first  {shown[0]}\n  second {shown[1]}"


LAWS: tuple[Law, ...] = (
    never_raises,
    state_is_not_changed,
    state_survives_json,
    cuts_do_not_matter,
    extract_is_the_stream,
    events_are_well_formed,
    no_text_is_lost,
    state_is_bounded,
)
"""All laws, the most basic first."""
