"""hermes: a JSON object between ``<tool_call>`` and ``</tool_call>``.

Written by Hermes 2 Pro and 3, Qwen2.5, Qwen3, QwQ, Granite 4 and many fine-tunes. The format is the one of the Hermes
function-calling prompt; docs/formats/hermes.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import MachinePlugin, ModelFamily, TaggedCallMachine, Tool, ToolChoice, call_objects

OPENER, CLOSER = "<tool_call>", "</tool_call>"


@dataclass
class Hermes(TaggedCallMachine):
    """JSON calls in <tool_call> tags: Hermes 2 Pro and 3, Qwen2.5, Qwen3, QwQ, Granite 4."""

    opener = OPENER
    closer = CLOSER


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Both layouts that models write: on lines of their own, and compact."""
    return call_objects(tools, tool_choice, begin=OPENER, end=CLOSER)


plugin = MachinePlugin(
    Hermes,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(
            ("Hermes 2 Pro", "Hermes 3", "Qwen2.5", "Qwen3", "QwQ", "Granite 4"),
            template=(OPENER, "<function-name>"),
            absent=("<function=", "<arg_key>"),
            other_types=("ernie4_5*",),
        ),
    ],
)
