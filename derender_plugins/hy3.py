"""hy3, hy4: the function's name and pairs of ``<arg_key>`` and ``<arg_value>`` in sections; and reasoning.

    section := "<tool_calls>" (call | noise)* ["</tool_calls>"]
    call    := "<tool_call>" NAME ["<tool_sep>"] blank (pair blank)* "</tool_call>"
    pair    := "<arg_key>" KEY "</arg_key>" blank "<arg_value>" VALUE "</arg_value>"

Written by Hy3, whose released tokenizer gives each tag a suffix (``<tool_calls:opensource>``), and by Hy4, which has no
``<tool_sep>``. docs/formats/hy3.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    MachinePlugin,
    ModelFamily,
    PairTagMachine,
    Parameter,
    ParseContext,
    Prompt,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    call_tags,
    offered_tools,
    parameters_node,
    tag_node,
)

SUFFIXES = ("", ":opensource")
"""What the tokenizers of the family put behind the name in each tag."""


def tags(name: str) -> tuple[str, ...]:
    """A tag in all spellings."""
    return tuple(f"<{name}{suffix}>" for suffix in SUFFIXES)


SECTION, SECTION_END = tags("tool_calls"), tags("/tool_calls")
CALL, CALL_END = tags("tool_call"), tags("/tool_call")
SEPARATOR = tags("tool_sep")
KEY, KEY_END = tags("arg_key"), tags("/arg_key")
VALUE, VALUE_END = tags("arg_value"), tags("/arg_value")
THINK, THINK_END = tags("think"), tags("/think")
SWITCHED_OFF = ("no_think", "none")


@dataclass
class Hy3(PairTagMachine):
    """Pairs of keys and values in sections of calls: Hy3, Hy4."""

    section_openers = SECTION
    section_closers = SECTION_END
    call_openers = CALL
    call_closers = CALL_END
    parameter_openers = KEY
    parameter_closers = VALUE_END
    key_closers = KEY_END
    value_openers = VALUE
    name_ends = SEPARATOR


@dataclass
class Hy3Reasoning(ThinkMachine):
    """Reasoning in <think> tags that the model or the prompt opens: Hy3, Hy4."""

    spellings = tuple(zip(THINK[1:], THINK_END[1:], strict=True))

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """The effort "no_think" closes reasoning in the prompt."""
        if prompt is None and context.template_kwargs.get("reasoning_effort") in SWITCHED_OFF:
            return False
        return super().opens_reasoning(prompt, context)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A section of calls in each spelling: the model's own is the one that it finds likely."""
    forced: ToolChoice = "required" if tool_choice == "auto" else tool_choice
    offered = offered_tools(tools, tool_choice)
    sections = []
    for suffix in SUFFIXES:
        name_ends = (f"<tool_sep{suffix}>", "")[: 1 if suffix else 2]  # Hy4 has no suffix
        calls = [_call_tag(tool, suffix, name_end) for tool in offered for name_end in name_ends]
        begin, end = f"<tool_calls{suffix}>\n", f"</tool_calls{suffix}>"
        section = call_section(calls, forced, begin=begin, end=end, separator="")
        sections += [section] if section else []
    return call_tags(sections, tool_choice, separator="\n", triggers=SECTION)


def _call_tag(tool: Tool, suffix: str, name_end: str) -> dict[str, Any]:
    def pair(parameter: Parameter) -> dict[str, Any]:
        key = f"<arg_key{suffix}>{parameter.name}</arg_key{suffix}>\n"
        return tag_node(f"{key}<arg_value{suffix}>", parameter.bare, f"</arg_value{suffix}>\n")

    begin = f"<tool_call{suffix}>{tool.name}{name_end}\n"
    return tag_node(begin, parameters_node(tool, pair), f"</tool_call{suffix}>\n")


plugin = MachinePlugin(
    Hy3,
    special_tokens=(*SECTION, *SECTION_END, *CALL, *CALL_END, *SEPARATOR, *KEY, *KEY_END, *VALUE, *VALUE_END),
    tool_call_openers=(*SECTION, *CALL),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Hy3",), template=("tool_calls", "tool_sep", "arg_key"), types=("hy*",)),
        ModelFamily(("Hy4",), template=("tool_calls", "arg_key"), absent=("tool_sep",), types=("hy*",)),
    ],
)
reasoning = MachinePlugin(
    Hy3Reasoning,
    special_tokens=(*THINK, *THINK_END),
    families=[
        ModelFamily(("Hy3", "Hy4"), template=("tool_calls", "arg_key", "think"), types=("hy*",)),
    ],
)
