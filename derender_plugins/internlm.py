"""internlm: a JSON object behind ``<|action_start|><|plugin|>``.

    call := "<|action_start|>" blank "<|plugin|>" blank {"name", "parameters"} blank "<|action_end|>"

Written by InternLM 2 and later. docs/formats/internlm.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    Call,
    MachinePlugin,
    ModelFamily,
    NeedData,
    TaggedCallMachine,
    Tool,
    ToolChoice,
    call_objects,
    parse_calls,
)

OPENER, CLOSER, PLUGIN = "<|action_start|>", "<|action_end|>", "<|plugin|>"
KEYS = ("parameters", "arguments")


@dataclass
class InternLM(TaggedCallMachine):
    """JSON calls behind <|action_start|><|plugin|>: InternLM 2, 2.5, 3."""

    opener = OPENER
    closer = CLOSER
    streamed_keys = KEYS[:1]
    mentions = False

    def read_start(self) -> NeedData | None:
        """The tag of plugins may be missing; that of the code interpreter has no JSON behind it."""
        if self.skip_blank() == "<":
            stands = self.stands(PLUGIN)
            if stands is None:
                return NEED_DATA
            self.ahead += len(PLUGIN) if stands else 0
        return super().read_start()

    def region_calls(self) -> list[Call] | None:
        """The calls of the region's JSON."""
        return parse_calls(self.peek(self.complete - self.body, self.body), keys=KEYS)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """On lines of their own, and compact."""
    return call_objects(tools, tool_choice, begin=OPENER + PLUGIN, end=CLOSER, key=KEYS[0])


plugin = MachinePlugin(
    InternLM,
    special_tokens=(OPENER, PLUGIN, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("InternLM2.5", "InternLM3"), tokens=(OPENER, PLUGIN), types=("internlm*",)),
    ],
)
