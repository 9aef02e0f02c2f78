"""cohere_command3: a JSON list of actions, reasoning and answer, each between control tokens.

    output := ["<|START_THINKING|>" text "<|END_THINKING|>"]
              ("<|START_ACTION|>" list "<|END_ACTION|>" | "<|START_RESPONSE|>" text "<|END_RESPONSE|>")
    list   := "[" [action ("," action)*] "]"
    action := {"tool_call_id": string, "tool_name": string, "parameters": object}

Written by Command R7B, Command A and later. Where token ids are known, text that looks like a marker is text.
docs/formats/cohere_command.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    ListCallMachine,
    MachinePlugin,
    ModelFamily,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    numbered_tag,
    offered_tools,
)

THINKING, THINKING_END = "<|START_THINKING|>", "<|END_THINKING|>"
ACTION, ACTION_END = "<|START_ACTION|>", "<|END_ACTION|>"
ANSWER_TAGS = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")
NAME, PARAMETERS = "tool_name", "parameters"


@dataclass
class CohereCommand(ListCallMachine):
    """A JSON list of actions between control tokens: Cohere Command R7B, Command A."""

    openers = (ACTION,)
    closers = (ACTION_END,)
    noise = ANSWER_TAGS
    name_key = NAME
    argument_keys = streamed_keys = (PARAMETERS,)
    trim = False
    control_markers = True


@dataclass
class CohereCommandReasoning(ThinkMachine):
    """Reasoning between control tokens: Cohere Command A Reasoning."""

    opener = THINKING
    closer = THINKING_END
    noise = ANSWER_TAGS
    strip_newlines = False
    control_markers = True


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A list of actions. Their ids count, so they are any number."""
    tags = []
    for tool in offered_tools(tools, tool_choice):
        tag = call_tag('{"tool_call_id": "', tool, "}")
        tags.append(numbered_tag(tag, f'", "{NAME}": {json.dumps(tool.name)}, "{PARAMETERS}": '))
    return call_section(tags, tool_choice, begin=f"{ACTION}[", end=f"]{ACTION_END}", separator=", ")


FAMILIES = ("Command A", "Command R7B")

plugin = MachinePlugin(
    CohereCommand,
    special_tokens=(ACTION, ACTION_END, *ANSWER_TAGS),
    tool_call_openers=(ACTION,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(FAMILIES, template=(ACTION,)),
    ],
)
reasoning = MachinePlugin(
    CohereCommandReasoning,
    special_tokens=(THINKING, THINKING_END, *ANSWER_TAGS),
    families=[
        ModelFamily(FAMILIES, template=(THINKING,)),
    ],
)
