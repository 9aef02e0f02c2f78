"""jamba: a JSON list of calls between ``<tool_calls>`` and ``</tool_calls>``.

Written by Jamba 1.5 and later. docs/formats/jamba.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import ListCallMachine, MachinePlugin, ModelFamily, Tool, ToolChoice, call_list

OPENER, CLOSER = "<tool_calls>", "</tool_calls>"


@dataclass
class Jamba(ListCallMachine):
    """A JSON list of calls in <tool_calls> tags: Jamba."""

    openers = (OPENER,)
    closers = (CLOSER,)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list."""
    return call_list(tools, tool_choice, begin=f"{OPENER}[", end=f"]{CLOSER}")


plugin = MachinePlugin(
    Jamba,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Jamba 1.5", "Jamba 1.6"), template=(OPENER,), types=("jamba",)),
    ],
)
