"""hermes: a JSON object between ``<tool_call>`` and ``</tool_call>``.

Written by Hermes 2 Pro and 3, Qwen2.5, Qwen3, QwQ, Granite 4 and many fine-tunes. The format is the one of the Hermes
function-calling prompt; docs/formats/hermes.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import MachinePlugin, TaggedCallMachine, Tool, ToolChoice, call_tag, call_tags, offered_tools

OPENER, CLOSER = "<tool_call>", "</tool_call>"


@dataclass
class Hermes(TaggedCallMachine):
    """JSON calls in <tool_call> tags: Hermes 2 Pro and 3, Qwen2.5, Qwen3, QwQ, Granite 4."""

    opener = OPENER
    closer = CLOSER


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Both layouts that models write: on lines of their own, and compact."""
    tags = [
        call_tag(f'{OPENER}{line}{{"name": {json.dumps(tool.name)}, "arguments": ', tool, f"}}{line}{CLOSER}")
        for tool in offered_tools(tools, tool_choice)
        for line in ("\n", "")
    ]
    return call_tags(tags, tool_choice, separator="", triggers=(OPENER,))


plugin = MachinePlugin(
    Hermes, special_tokens=(OPENER, CLOSER), tool_call_openers=(OPENER,), structural_tag=structural_tag
)
