"""minimax_m2: ``<invoke name="NAME">`` with a ``<parameter name="KEY">`` tag for each argument; and its reasoning.

    block := "<minimax:tool_call>" blank (call blank)* ["</minimax:tool_call>"]

Written by MiniMax M2 and M2.x. docs/formats/minimax_m2.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    AttributeTagMachine,
    Machine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    ParseContext,
    Prompt,
    Text,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

OPENER, CLOSER = "<minimax:tool_call>", "</minimax:tool_call>"
INVOKE = "<invoke name="
THINK, THINK_END = "<think>", "</think>"


@dataclass
class MiniMaxM2(AttributeTagMachine):
    """A tag for each parameter, in <minimax:tool_call>: MiniMax M2."""

    section_openers = (OPENER,)
    section_closers = (CLOSER,)
    call_openers = ("<invoke",)
    call_closers = ("</invoke>",)
    parameter_openers = ("<parameter",)
    parameter_closers = ("</parameter>",)


@dataclass
class MiniMaxM2Reasoning(ThinkMachine):
    """Reasoning up to </think>, open unless the prompt closed it: MiniMax M2."""

    when_prompt_is_silent = True
    when_prompt_is_unknown = True


@dataclass
class MiniMaxM2AppendThink(Machine):
    """No reasoning: all is answer, and begins with the <think> that the prompt took from it: MiniMax M2."""

    phase: str = "start"

    def read_start(self) -> NeedData | None:
        """Give back the marker that the prompt ended with."""
        if not self.waiting:
            return NEED_DATA
        if self.context.reasoning_open:
            self.emit(Text(THINK))
        self.phase = "content"
        return None

    def read_content(self) -> NeedData:
        """All is answer."""
        self.spans.append((False, self.waiting))
        self.emit_text(self.waiting)
        return NEED_DATA

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """As the twin that separates reasoning."""
        return MiniMaxM2Reasoning.opens_reasoning(prompt, context)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A block of calls as the template writes it."""
    tags = [
        call_tag(f'{INVOKE}"{tool.name}">\n', tool, "</invoke>\n", style="minimax_xml")
        for tool in offered_tools(tools, tool_choice)
    ]
    calls = call_tags(tags, "required" if tool_choice == "auto" else tool_choice, separator="")
    if calls is None:
        return None
    block = {"type": "tag", "begin": OPENER + "\n", "content": calls, "end": CLOSER}
    return call_tags([block], "auto", separator="", triggers=(OPENER,)) if tool_choice == "auto" else block


plugin = MachinePlugin(
    MiniMaxM2,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER, INVOKE),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("MiniMax M2",), template=(OPENER,), absent=("]<]minimax[>[",)),
    ],
)
reasoning = MachinePlugin(
    MiniMaxM2Reasoning,
    special_tokens=(THINK, THINK_END),
    families=[
        ModelFamily(("MiniMax M2",), template=(OPENER, THINK), absent=("]<]minimax[>[",)),
    ],
)
append_think = MachinePlugin(MiniMaxM2AppendThink, special_tokens=(THINK, THINK_END))
