"""glm45, glm47: the function's name and pairs of ``<arg_key>`` and ``<arg_value>`` in ``<tool_call>``; and reasoning.

    call := "<tool_call>" NAME blank (pair blank)* "</tool_call>"
    pair := "<arg_key>" KEY "</arg_key>" blank "<arg_value>" VALUE "</arg_value>"

Written by GLM-4.5 and 4.6 with line breaks between the parts, by GLM-4.7 and GLM-5 without; one machine reads both.
docs/formats/glm45.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    MachinePlugin,
    ModelFamily,
    PairTagMachine,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

OPENER, CLOSER = "<tool_call>", "</tool_call>"
KEY, KEY_END = "<arg_key>", "</arg_key>"
VALUE, VALUE_END = "<arg_value>", "</arg_value>"
THINK, THINK_END = "<think>", "</think>"
TURN_TOKENS = ("<|user|>", "<|observation|>", "<|assistant|>", "<|system|>", "<|endoftext|>")


@dataclass
class Glm45(PairTagMachine):
    """Pairs of keys and values in <tool_call>: GLM-4.5 to GLM-5."""

    section_openers = ()
    section_closers = (CLOSER,)
    call_openers = (OPENER,)
    call_closers = (CLOSER,)
    parameter_openers = (KEY,)
    parameter_closers = (VALUE_END,)
    key_closers = (KEY_END,)
    value_openers = (VALUE,)
    ends_message = TURN_TOKENS


@dataclass
class Glm45Reasoning(ThinkMachine):
    """Reasoning in <think> tags that the model or the prompt opens: GLM-4.5 to GLM-5."""

    reopens = True
    when_prompt_is_unknown = True
    switches = ("enable_thinking", "thinking")
    ends_message = TURN_TOKENS


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """With a line break behind the name, as GLM-4.5 writes it, and without."""
    tags = [
        call_tag(f"{OPENER}{tool.name}{line}", tool, CLOSER, style="glm_xml")
        for tool in offered_tools(tools, tool_choice)
        for line in ("\n", "")
    ]
    return call_tags(tags, tool_choice, separator="", triggers=(OPENER,))


FAMILIES = ("GLM-4.5", "GLM-4.6", "GLM-4.7", "GLM-5")
RELATIVES = ("Ling 3", "Laguna")

plugin = MachinePlugin(
    Glm45,
    special_tokens=(OPENER, CLOSER, KEY, KEY_END, VALUE, VALUE_END, *TURN_TOKENS),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily((*FAMILIES, *RELATIVES), template=(OPENER, KEY), absent=("<tool_sep>", "<tool_calls>")),
    ],
)
reasoning = MachinePlugin(
    Glm45Reasoning,
    special_tokens=(THINK, THINK_END),
    families=[
        ModelFamily(FAMILIES, template=("[gMASK]", KEY, THINK)),
    ],
)
