"""xlam: a JSON list of calls, by itself, in a fence or behind a marker.

    answer := [reasoning "</think>"] list [text]  |  text (fence list fence | marker list [closer]) [text]
    marker := "<tool_call>" | "[TOOL_CALLS]"

Written by xLAM 1 and 2. Without a marker only calls of offered functions count. docs/formats/xlam.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import ListCallMachine, MachinePlugin, ModelFamily, Tool, ToolChoice, call_list

MARKERS, CLOSER = ("<tool_call>", "[TOOL_CALLS]"), "</tool_call>"
FENCES, FENCE = ("```json", "```"), "```"
THINK_END = "</think>"


@dataclass
class XLam(ListCallMachine):
    """A JSON list of calls by itself, in a fence or behind a marker: xLAM.

    Args:
        fenced: whether a fence stands in front of the list.
    """

    fenced: bool = False

    openers = (*MARKERS, *FENCES, THINK_END)
    closers = (CLOSER,)
    leads = True

    def open(self, opener: str) -> None:
        """As ``ListCallMachine.open``; behind thoughts an answer begins."""
        if opener == THINK_END:
            self.content(self.take(len(THINK_END)))
            self.phase = "lead"
            return
        super().open(opener)
        self.marked, self.fenced = opener in MARKERS, opener in FENCES

    def begin_region(self, opener: str = "") -> None:
        """As ``ListCallMachine.begin_region``, without a fence."""
        super().begin_region(opener)
        self.fenced = False

    @property
    def list_closers(self) -> tuple[str, ...]:
        """A fence is closed by one."""
        return (FENCE,) if self.fenced else self.closers


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list by itself. Nothing announces it in free text, so ``"auto"`` cannot be constrained."""
    return None if tool_choice == "auto" else call_list(tools, tool_choice, begin="[", end="]")


plugin = MachinePlugin(
    XLam,
    special_tokens=(*MARKERS, CLOSER),
    tool_call_openers=MARKERS,
    structural_tag=structural_tag,
    families=[
        ModelFamily(("xLAM 2",), template=("tool_call_name",)),
    ],
)
