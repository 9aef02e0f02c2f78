"""nemotron_json: a JSON list of calls between ``<TOOLCALL>`` and ``</TOOLCALL>``.

Written by Nemotron Nano 2. docs/formats/nemotron_json.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import ListCallMachine, MachinePlugin, ModelFamily, Tool, ToolChoice, call_list

OPENER, CLOSER = "<TOOLCALL>", "</TOOLCALL>"


@dataclass
class NemotronJson(ListCallMachine):
    """A JSON list of calls in <TOOLCALL> tags: Nemotron Nano 2."""

    openers = (OPENER,)
    closers = (CLOSER,)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list."""
    return call_list(tools, tool_choice, begin=f"{OPENER}[", end=f"]{CLOSER}")


plugin = MachinePlugin(
    NemotronJson,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Nemotron Nano 2",), template=(OPENER,)),
    ],
)
