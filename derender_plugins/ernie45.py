"""ernie45: a JSON object between ``<tool_call>`` tags; ernie45 (reasoning): ``<think>…</think>``, then the answer.

    answer := text  |  "<response>" text ["</response>"]

Written by ERNIE 4.5. The calls are those of hermes; docs/formats/ernie45.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import MachinePlugin, ModelFamily, TaggedCallMachine, ThinkMachine, Tool, ToolChoice, call_objects

OPENER, CLOSER = "<tool_call>", "</tool_call>"
RESPONSE, RESPONSE_END = "<response>", "</response>"


@dataclass
class Ernie45(TaggedCallMachine):
    """JSON calls in <tool_call> tags: ERNIE 4.5."""

    opener = OPENER
    closer = CLOSER


@dataclass
class Ernie45Reasoning(ThinkMachine):
    """Reasoning in <think> tags, and an answer that may stand in <response> tags: ERNIE 4.5."""

    when_prompt_is_unknown = True
    switches = ("enable_thinking",)
    answer_opener = RESPONSE
    answer_closer = RESPONSE_END


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """On lines of their own, and compact."""
    return call_objects(tools, tool_choice, begin=OPENER, end=CLOSER)


plugin = MachinePlugin(
    Ernie45,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("ERNIE 4.5 Thinking",), template=(OPENER,), types=("ernie4_5*",)),
    ],
)
reasoning = MachinePlugin(
    Ernie45Reasoning,
    special_tokens=("<think>", "</think>", RESPONSE, RESPONSE_END),
    families=[
        ModelFamily(("ERNIE 4.5 Thinking",), template=("<think>",), types=("ernie4_5*",)),
    ],
)
