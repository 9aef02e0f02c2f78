"""lfm2: a Python list of calls between ``<|tool_call_start|>`` and ``<|tool_call_end|>``.

Written by LFM2. docs/formats/lfm2.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, PythonListMachine

OPENER, CLOSER = "<|tool_call_start|>", "<|tool_call_end|>"


@dataclass
class Lfm2(PythonListMachine):
    """A Python list of calls between <|tool_call_start|> and <|tool_call_end|>: LFM2."""

    openers = (OPENER,)
    closers = (CLOSER,)


plugin = MachinePlugin(
    Lfm2,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    families=[
        ModelFamily(("LFM2",), tokens=(OPENER, CLOSER), types=("lfm2*",)),
    ],
)
