"""phi4_mini_json: ``functools`` and a JSON list of calls.

    output := text (start_of_line calls text)*
    calls  := ["<|tool_call|>"] "functools" blank list ["<|/tool_call|>"]  |  "<|tool_call|>" list ["<|/tool_call|>"]

Written by Phi-4-mini, and by FireFunction. docs/formats/phi4_mini_json.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import NEED_DATA, ListCallMachine, MachinePlugin, ModelFamily, NeedData, Tool, ToolChoice, call_list

WORD = "functools"
TAG, TAG_END = "<|tool_call|>", "<|/tool_call|>"


@dataclass
class Phi4MiniJson(ListCallMachine):
    """A JSON list of calls behind the word functools: Phi-4-mini, FireFunction."""

    openers = (TAG,)
    words = (WORD,)
    closers = (TAG_END,)
    trim = False

    def read_head(self) -> NeedData | None:
        """The word, where only the tag was read, and a list."""
        char = self.skip_blank()
        if char == WORD[0] and self.starts(TAG):
            stands = self.stands(WORD)
            if stands is None:
                return NEED_DATA
            self.ahead += len(WORD) if stands else 0
            char = self.skip_blank()
        if char in ("", "["):
            return super().read_head()
        self.reject()
        return None


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list. In free text the word alone begins no call, so ``"auto"`` cannot be constrained."""
    return None if tool_choice == "auto" else call_list(tools, tool_choice, begin=f"{WORD}[", end="]")


plugin = MachinePlugin(
    Phi4MiniJson,
    special_tokens=(TAG, TAG_END),
    tool_call_openers=(f"{WORD}[", TAG),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Phi-4-mini",), tokens=("<|/tool|>", TAG_END)),
    ],
)
