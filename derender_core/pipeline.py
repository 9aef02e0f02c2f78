"""The two slots in a row: what the reasoning parser leaves as text is the tool parser's input."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec import structs

from derender_core.events import Event, Reasoning, Text, join_texts
from derender_core.forced_call import NATIVE, ForcedCallMachine
from derender_core.hookspecs import Span, State, Step
from derender_core.inputs import Delta, ParseContext, Prompt
from derender_core.plugin import MachinePlugin
from derender_core.registry import Parser, make_parser

__all__ = ["Pipeline"]

# Keys of the pipeline's state: one for each of the parsers that can be in it.
_REASONING, _FORCED, _TOOL = "r", "f", "t"

KEPT_STATES = 1024
LONGEST_KEY = 512
"""Of states from outside that passed the check: how many are remembered, and how long they may be in bytes."""


class Pipeline:
    """The parsers of a deployment. Holds no state of a stream, so one object serves all.

    Args:
        tool: the tool parser, if any.
        reasoning: the reasoning parser, if any.
    """

    def __init__(self, tool: Parser | None = None, reasoning: Parser | None = None) -> None:
        self.tool, self.reasoning = tool, reasoning
        self._forced = make_parser("tool", "bare JSON of a forced call", MachinePlugin(ForcedCallMachine))
        self._good_states: set[bytes] = set()

    def open(self, context: ParseContext, prompt: Prompt | None) -> ParseContext:
        """Fill in what the parsers tell each other and what the prompt tells them. Once per stream.

        A ``reasoning_open`` that is already set stays.

        Raises:
            ParserError: a parser failed.
        """
        context = self.resume(context)
        return replace(context, reasoning_open=self.opens_reasoning(context, prompt))

    def opens_reasoning(self, context: ParseContext, prompt: Prompt | None) -> bool | None:
        """Whether the output begins inside reasoning; None when only the output itself can tell.

        Args:
            context: what ``resume`` gave. A ``reasoning_open`` that is already set stays.
            prompt: what the model was given; None when nobody knows.

        Raises:
            ParserError: a parser failed.
        """
        if self.reasoning is None or context.reasoning_open is not None:
            return context.reasoning_open
        return self.reasoning.prompt_opens_reasoning(prompt, context)

    def resume(self, context: ParseContext) -> ParseContext:
        """As ``open``, where the prompt was asked before.

        Raises:
            ParserError: a parser failed.
        """
        if self.reasoning is None or not context.tools:
            return context
        if self.tool is None:  # nobody else reads the answer, so the reasoning parser need not leave anything to others
            return replace(context, tools=())
        return replace(context, tool_call_openers=self.tool.tool_call_openers(context))

    def special_tokens(self, context: ParseContext) -> tuple[str, ...]:
        """The special tokens that the parsers must see as text.

        Raises:
            ParserError: a parser failed.
        """
        tokens = self.reasoning.special_tokens(context) if self.reasoning is not None else ()
        if self.tool is not None and context.tools:
            tokens += self.tool.special_tokens(context)
        return tokens

    def parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Parse the next delta through both slots. The state is not changed.

        Raises:
            ParserError: a parser failed.
        """
        state = state or {}
        after: State = {}
        if self.reasoning is None:
            return Step(after, self._content(state, delta, context, after))
        run = _run if delta.final else Parser.parse_delta  # one call less for every token
        step = run(self.reasoning, state.get(_REASONING), delta, context)
        after[_REASONING] = step.state
        events, spans = step.events, step.spans or _spans(step.events)
        if self.tool is not None and context.tools:
            events = self._events(state, events, delta, context, after)
        return Step(after, events, spans)

    def extract(self, output: Delta | str, context: ParseContext) -> list[Event]:
        """Parse a whole output at once; its calls come whole.

        Raises:
            ParserError: a parser failed.
        """
        delta = Delta(output, final=True) if isinstance(output, str) else structs.replace(output, final=True)
        return list(self.parse_delta(None, delta, replace(context, stream_tool_calls="whole")).events)

    def check_state(self, state: State) -> str | None:
        """Say what is wrong with a state from outside, or None.

        Raises:
            ParserError: a parser failed.
        """
        key = _small_key(state)
        if key is not None and key in self._good_states:
            return None
        wrong = self._find_fault(state)
        if wrong is None and key is not None:
            if len(self._good_states) >= KEPT_STATES:
                self._good_states.clear()
            self._good_states.add(key)
        return wrong

    def _find_fault(self, state: State) -> str | None:
        parsers = {_REASONING: self.reasoning, _FORCED: self._forced, _TOOL: self.tool}
        for key, value in state.items():
            parser = parsers.get(key)
            if parser is None:
                return f"it has a part {key!r} that no configured parser has"
            if not isinstance(value, dict):
                return f"its part {key!r} must be an object"
            wrong = parser.check_state(value)
            if wrong:
                return f"of the {parser}: {wrong}"
        return None

    def _events(
        self, state: State, events: Sequence[Event], delta: Delta, context: ParseContext, after: State
    ) -> tuple[Event, ...]:
        """Put each stretch of text through the tool slot, and let reasoning pass between them."""
        if len(events) == 1 and isinstance(text := events[0], Text):  # as most deltas of an answer give
            return self._content(state, _piece((text,), delta), context, after)
        passed: list[Event] = []
        texts: list[Text] = []
        for event in events:
            if isinstance(event, Text):
                texts.append(event)
                continue
            if texts:
                passed += self._content(state, _piece(texts), context, after)
                state, texts = after, []
            passed.append(event)
        if texts or delta.final:
            passed += self._content(state, _piece(texts, delta), context, after)
        else:
            for key in (_FORCED, _TOOL):
                if key in state:
                    after[key] = state[key]
        return tuple(passed)

    def _content(self, state: State, delta: Delta, context: ParseContext, after: State) -> tuple[Event, ...]:
        """Run the tool slot on one piece of text; what it keeps goes to ``after``."""
        if self.tool is None or not context.tools:
            return (Text(delta.text, delta.specials),) if delta.text else ()
        choice = context.tool_choice
        if choice not in ("auto", "none"):
            forced = _run(self._forced, state.get(_FORCED), delta, context)
            after[_FORCED] = forced.state
            if forced.state is None or forced.state.get("phase") != NATIVE:
                return tuple(forced.events)
            delta = _piece([event for event in forced.events if isinstance(event, Text)], delta)
        if choice == "none" and context.stream_tool_calls != "whole":
            # Nobody is told of calls, so nothing may be announced that a malformed one could not take back.
            context = replace(context, stream_tool_calls="whole")
        run = _run if delta.final else Parser.parse_delta
        step = run(self.tool, state.get(_TOOL), delta, context)
        after[_TOOL] = step.state
        if choice == "none":
            return tuple(event for event in step.events if isinstance(event, Text))
        return tuple(step.events)


def _small_key(state: State) -> bytes | None:
    """Bytes that only equal states have; None where they would be long.

    Where parsers hold nothing back, thousands of chunks come with the same few states, and asking the parsers about
    them again would take as long as parsing a token.
    """
    try:
        key = marshal.dumps(state, 2)  # later versions write equal values in different ways
    except ValueError:  # nested too deeply
        return None
    return key if len(key) <= LONGEST_KEY else None


def _run(parser: Parser, state: State | None, delta: Delta, context: ParseContext) -> Step:
    """One parser's step. A whole output goes to the parser's own ``derender_extract``, where it has one."""
    if state is None and delta.final and parser.extracts_itself:
        return Step({}, tuple(parser.extract(delta, replace(context, stream_tool_calls="whole"))))
    return parser.parse_delta(state, delta, context)


def _piece(texts: Sequence[Text], end: Delta | None = None) -> Delta:
    """The texts as one delta, which is where the output ends if ``end`` is."""
    text = texts[0] if len(texts) == 1 else join_texts(texts)
    if end is not None and text.text == end.text and text.specials == end.specials:
        return end
    if end is None:
        return Delta(text.text, text.specials)
    return Delta(text.text, text.specials, end.final, end.finish_reason)


def _spans(events: Iterable[Event]) -> tuple[Span, ...]:
    """For parsers that do not tell: what they emitted is what they read."""
    return tuple(
        (isinstance(event, Reasoning), len(event.text)) for event in events if isinstance(event, (Text, Reasoning))
    )
