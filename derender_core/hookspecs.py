"""The hooks of a parser. This is the whole contract between derender and a parser.

A parser is an object (a module, an instance, a class with static methods) with some of these methods marked
``@hookimpl``, named by an entry point in ``derender.tool_parsers`` or ``derender.reasoning_parsers``; the entry point's
name is the value of the server's flag. Most authors write a ``Machine`` and wrap it in ``MachinePlugin``, which
implements all hooks for them. An implementation may leave out parameters that it does not need.

All hooks are "first result": the first implementation that returns something other than None wins, and derender's own
defaults come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pluggy

from derender_core.events import Event
from derender_core.inputs import Delta, ParseContext, Prompt, Tool, ToolChoice
from derender_core.model_facts import ModelFacts

__all__ = ["HookSpecs", "Span", "State", "Step", "hookimpl"]

PROJECT = "derender"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

State = dict[str, Any]
"""A parser's whole memory between two deltas: JSON-plain values under string keys."""

Span = tuple[bool, int]
"""(is reasoning, number of characters): how a stretch of the input was understood."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """What one delta gave.

    Args:
        state: the state to hand in with the next delta. JSON-plain, and small: bounded by the longest unfinished unit.
        events: what became certain, in order.
        spans: reasoning parsers only: the characters consumed since the last step, in order, for counting reasoning
            tokens. Leave empty to have them counted by the texts of the events.
    """

    state: State
    events: tuple[Event, ...]
    spans: tuple[Span, ...] = ()


class HookSpecs:
    """Container of the hook specifications; pluggy reads it."""

    @hookspec(firstresult=True)
    def derender_parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step | None:
        """Parse the next piece of the output.

        Called once per delta, in order. Pure: the given state is not changed, and the same three arguments give the
        same step. Must not raise on any model output. With ``delta.final`` everything held back must be released or
        dropped for good.

        Args:
            state: None on the first delta, else the state of the step before.
            delta: text, special tokens, and whether this is the end.
            context: the request; the same object for the whole stream.

        Returns:
            The step. None is an error: there is no other parser to ask.
        """

    @hookspec(firstresult=True)
    def derender_extract(self, output: Delta, context: ParseContext) -> Sequence[Event] | None:
        """Parse a whole output at once. The default calls ``derender_parse_delta(None, output, context)``.

        Implement it only when a whole output can be parsed faster; the laws require the same events.

        Args:
            output: the whole output, final.
            context: the request, with ``stream_tool_calls == "whole"``.
        """

    @hookspec(firstresult=True)
    def derender_prompt_opens_reasoning(self, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """Say whether the output begins inside reasoning. Asked once per stream, of the reasoning parser only.

        The last reasoning marker of the prompt's current turn decides, then ``context.template_kwargs`` when the
        prompt is unknown, then the family's default.

        Args:
            prompt: what the model was given; None when nobody knows.
            context: the request; its ``reasoning_open`` is not set yet.

        Returns:
            True or False, or None when the output itself tells (it then arrives as ``context.reasoning_open``).
        """

    @hookspec(firstresult=True)
    def derender_special_tokens(self, context: ParseContext) -> tuple[str, ...] | None:
        """The special tokens that this parser must see as text. Default: none.

        All other special tokens are dropped before parsing, unless the request asks to see them.
        """

    @hookspec(firstresult=True)
    def derender_tool_call_openers(self, context: ParseContext) -> tuple[str, ...] | None:
        """The markers with which this parser's calls begin. Default: none. Asked of the tool parser only.

        The reasoning parser gets them as ``context.tool_call_openers``, so that a call made without closing the
        reasoning is not lost.
        """

    @hookspec(firstresult=True)
    def derender_structural_tag(self, tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
        """How to hold an engine to this format: the ``format`` node of a structural tag. Default: None.

        Args:
            tools: the functions offered.
            tool_choice: as in ``ParseContext.tool_choice``.
        """

    @hookspec(firstresult=True)
    def derender_recognizes(self, model: ModelFacts) -> str | None:
        """Say whether a model writes this format. Default: None. Asked at start-up, for ``auto`` in place of a name.

        Every installed parser is asked, and ``auto`` is refused unless exactly one says yes. So claim only what is
        certain: a model without a parser is found at once, one with the wrong parser is not.

        Args:
            model: what its files say.

        Returns:
            What the model is known by, for the log, or None when it is not, or may not be, one of this parser's.
        """

    @hookspec(firstresult=True)
    def derender_call_id_length(self) -> int | None:
        """How long the ids of calls must be, where the model's chat template accepts no others. Default: None, any.

        Tool parsers only; asked at start-up. Ids that are made for calls whose format has none, or whose model wrote
        none, then are so many letters and digits without a prefix. Ids of ``ToolCallStart`` stay as they are.

        Returns:
            A number of characters, from 8 to 64.
        """

    @hookspec(firstresult=True)
    def derender_check_state(self, state: State) -> str | None:
        """Say what is wrong with a state that came from outside. Default: None, nothing.

        Called once per request for a state that a client sent back, before ``derender_parse_delta`` sees it, so that
        a tampered state is the client's error and not a crash.
        """
