"""apertus: a JSON list of ``{NAME: arguments}`` objects between ``<|tools_prefix|>`` and ``<|tools_suffix|>``.

Written by Apertus. docs/formats/apertus.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    Call,
    ListCallMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    State,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    normalize_arguments,
    offered_tools,
)

OPENER, CLOSER = "<|tools_prefix|>", "<|tools_suffix|>"


@dataclass
class Apertus(ListCallMachine):
    """A JSON list of {NAME: arguments} objects between <|tools_prefix|> and <|tools_suffix|>: Apertus.

    Args:
        value: where the arguments begin.
    """

    value: int = 0

    openers = (OPENER,)
    closers = (CLOSER,)

    def read_object(self) -> NeedData | None:
        """From the brace to the name's colon."""
        progress = self.walk_key()
        if progress == "more":
            return self.wait()
        if progress == "bad" or not self.key:
            self.reject()
            return None
        self.name, self.phase = self.key, "value"
        return None

    def read_value(self) -> NeedData | None:
        """From the colon to the arguments."""
        if self.skip_blank() == "":
            return self.wait()
        self.begin_value()
        self.value, self.phase = self.ahead, "arguments"
        return None

    def read_arguments(self) -> NeedData | None:
        """The arguments."""
        progress = self.walk_arguments()
        self.value = 0 if self.announced else self.value
        if progress == "more":
            return self.wait()
        if progress == "bad":
            self.reject()
            return None
        self.phase = "brace"
        return None

    def read_brace(self) -> NeedData | None:
        """From the arguments to the brace. An object holds one call."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char != "}":
            self.reject()
            return None
        self.ahead += 1
        self.mark, self.phase = self.ahead, "next"
        return None

    def object_call(self, text: str) -> Call | None:
        """The name and what stands behind its colon."""
        arguments = normalize_arguments(text[self.value - self.body : -1])
        return None if arguments is None else Call(self.name, arguments)

    def forget_region(self) -> None:
        """As ``ListCallMachine.forget_region``, and where the arguments begin."""
        super().forget_region()
        self.value = 0

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``ListCallMachine.check``, and that ``value`` lies within what was read."""
        wrong = super().check(state)
        if not wrong and state.get("value", 0) > state.get("ahead", 0):
            return "field 'value' points outside what was read"
        return wrong


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One list."""
    tags = [call_tag(f"{{{json.dumps(tool.name)}: ", tool, "}") for tool in offered_tools(tools, tool_choice)]
    return call_section(tags, tool_choice, begin=f"{OPENER}[", end=f"]{CLOSER}", separator=", ")


plugin = MachinePlugin(
    Apertus,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Apertus",), tokens=(OPENER,), types=("apertus",)),
    ],
)
