"""``MachinePlugin``: serves a machine class through the hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from derender_core.hookspecs import State, Step, hookimpl
from derender_core.inputs import Delta, ParseContext, Prompt, Tool, ToolChoice
from derender_core.machine import Machine
from derender_core.model_facts import ModelFacts, ModelFamily

__all__ = ["MachinePlugin", "MarkerHooks"]


class MarkerHooks:
    """The hooks that only name markers.

    Args:
        special_tokens: special tokens that the parser must see as text.
        tool_call_openers: tool parsers: the markers with which calls begin.
    """

    def __init__(self, special_tokens: Sequence[str], tool_call_openers: Sequence[str]) -> None:
        self._special_tokens = tuple(special_tokens)
        self._tool_call_openers = tuple(tool_call_openers)

    @hookimpl
    def derender_special_tokens(self) -> tuple[str, ...] | None:
        """As given."""
        return self._special_tokens or None

    @hookimpl
    def derender_tool_call_openers(self) -> tuple[str, ...] | None:
        """As given."""
        return self._tool_call_openers or None


class MachinePlugin(MarkerHooks):
    """A parser made of a machine class.

    Args:
        machine: the class. A fresh one parses each stream; what it needs from the request is in its ``context``. A
            static method ``opens_reasoning(prompt, context)`` of it answers ``derender_prompt_opens_reasoning``.
        description: one line for ``derender parsers``; the first line of the machine's docstring when left out.
        special_tokens: special tokens that the machine must see as text.
        tool_call_openers: tool parsers: the markers with which calls begin.
        structural_tag: tool parsers: see ``derender_structural_tag``.
        families: the models that write the format, by which ``auto`` finds the parser: see ``derender_recognizes``.
        call_id_length: tool parsers: see ``derender_call_id_length``.
    """

    def __init__(
        self,
        machine: type[Machine],
        *,
        description: str | None = None,
        special_tokens: Sequence[str] = (),
        tool_call_openers: Sequence[str] = (),
        structural_tag: Callable[[Sequence[Tool], ToolChoice], Mapping[str, Any] | None] | None = None,
        families: Sequence[ModelFamily] = (),
        call_id_length: int | None = None,
    ) -> None:
        super().__init__(special_tokens, tool_call_openers)
        self._call_id_length = call_id_length
        self.machine = machine
        self.families = tuple(families)
        self.description = description or (machine.__doc__ or machine.__name__).strip().splitlines()[0]
        self._structural_tag = structural_tag

    def __repr__(self) -> str:
        return f"MachinePlugin({self.machine.__name__})"

    @hookimpl
    def derender_parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Load the machine, feed it, save it."""
        machine: Machine = self.machine.load(state)
        events = machine.feed(delta, context)
        return Step(machine.save(), tuple(events), tuple(machine.spans))

    @hookimpl
    def derender_prompt_opens_reasoning(self, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """Ask the machine class, if it knows."""
        asked = getattr(self.machine, "opens_reasoning", None)
        answer: bool | None = asked(prompt, context) if asked else None
        return answer

    @hookimpl
    def derender_structural_tag(self, tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
        """As given."""
        return self._structural_tag(tools, tool_choice) if self._structural_tag else None

    @hookimpl
    def derender_recognizes(self, model: ModelFacts) -> str | None:
        """The first of the families that the model is of."""
        return next((reason for family in self.families if (reason := family.recognizes(model))), None)

    @hookimpl
    def derender_call_id_length(self) -> int | None:
        """As given."""
        return self._call_id_length

    @hookimpl
    def derender_check_state(self, state: State) -> str | None:
        """Ask the machine class."""
        return self.machine.check(state)
