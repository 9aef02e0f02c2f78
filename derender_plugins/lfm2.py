"""lfm2: a Python list of calls between ``<|tool_call_start|>`` and ``<|tool_call_end|>``.

Written by LFM2. docs/formats/lfm2.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    MachinePlugin,
    ModelFamily,
    PythonListMachine,
    Tool,
    ToolChoice,
    call_section,
    python_call_tags,
)

OPENER, CLOSER = "<|tool_call_start|>", "<|tool_call_end|>"


@dataclass
class Lfm2(PythonListMachine):
    """A Python list of calls between <|tool_call_start|> and <|tool_call_end|>: LFM2."""

    openers = (OPENER,)
    closers = (CLOSER,)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list."""
    calls = python_call_tags(tools, tool_choice)
    return call_section(calls, tool_choice, begin=f"{OPENER}[", end=f"]{CLOSER}", separator=", ")


plugin = MachinePlugin(
    Lfm2,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("LFM2",), tokens=(OPENER, CLOSER), types=("lfm2*",)),
    ],
)
