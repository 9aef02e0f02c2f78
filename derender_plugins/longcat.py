"""longcat: a JSON object between ``<longcat_tool_call>`` and ``</longcat_tool_call>``.

Written by LongCat-Flash. The grammar is that of hermes with other tags; docs/formats/longcat.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import MachinePlugin, ModelFamily, TaggedCallMachine, Tool, ToolChoice, call_objects

OPENER, CLOSER = "<longcat_tool_call>", "</longcat_tool_call>"


@dataclass
class LongCat(TaggedCallMachine):
    """JSON calls in <longcat_tool_call> tags: LongCat-Flash."""

    opener = OPENER
    closer = CLOSER


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """On lines of their own, and compact."""
    return call_objects(tools, tool_choice, begin=OPENER, end=CLOSER)


plugin = MachinePlugin(
    LongCat,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("LongCat Flash",), template=(OPENER,)),
    ],
)
