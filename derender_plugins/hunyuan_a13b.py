"""hunyuan_a13b: a JSON list of calls between ``<tool_calls>`` tags, and reasoning in front of an ``<answer>``.

    output := ["<think>" reasoning "</think>"] ("<answer>" answer "</answer>" | answer)

Written by Hunyuan A13B. docs/formats/hunyuan_a13b.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import ListCallMachine, MachinePlugin, ModelFamily, ThinkMachine, Tool, ToolChoice, call_list

OPENER, CLOSER = "<tool_calls>", "</tool_calls>"
ANSWER, ANSWER_END = "<answer>", "</answer>"


@dataclass
class HunyuanA13B(ListCallMachine):
    """A JSON list of calls in <tool_calls> tags: Hunyuan A13B."""

    openers = (OPENER,)
    closers = (CLOSER,)


@dataclass
class HunyuanA13BReasoning(ThinkMachine):
    """Reasoning in <think> tags, and an answer that may stand in <answer> tags: Hunyuan A13B."""

    switches = ("enable_thinking",)
    answer_opener = ANSWER
    answer_closer = ANSWER_END


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list."""
    return call_list(tools, tool_choice, begin=f"{OPENER}[", end=f"]{CLOSER}")


plugin = MachinePlugin(
    HunyuanA13B,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Hunyuan A13B",), template=(OPENER,), types=("hunyuan*",)),
    ],
)
reasoning = MachinePlugin(
    HunyuanA13BReasoning,
    special_tokens=("<think>", "</think>", ANSWER, ANSWER_END),
    families=[
        ModelFamily(("Hunyuan A13B",), template=(ANSWER,), types=("hunyuan*",)),
    ],
)
