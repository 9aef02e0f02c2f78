"""deepseek_v3 (tools), deepseek_v31: JSON between DeepSeek's call markers, in sections of calls.

    section := "<｜tool▁calls▁begin｜>" (call | noise)* ["<｜tool▁calls▁end｜>"]
    call    := "<｜tool▁call▁begin｜>" "function" "<｜tool▁sep｜>" name fence "<｜tool▁call▁end｜>"      V3-0324, R1
             | "<｜tool▁call▁begin｜>" name "<｜tool▁sep｜>" object "<｜tool▁call▁end｜>"               V3.1

Written by DeepSeek R1, V3 and V3.1. The marker characters are U+FF5C and U+2581.
docs/formats/deepseek_v3.md lists every rule.
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
    Progress,
    TaggedSectionMachine,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    normalize_arguments,
    offered_tools,
)

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
FENCE = "```"


@dataclass
class DeepSeekV3(TaggedSectionMachine):
    """Fenced JSON calls in sections: DeepSeek R1, V3 and V3.1.

    Args:
        kind: what stands before the separator.
        fenced: how many fences of the call were read.
    """

    kind: str = ""
    fenced: int = 0

    opener = CALL
    closer = CALL_END
    call_openers = (CALL,)
    section_openers = (SECTION,)
    section_closers = (SECTION_END,)
    breaks = (SECTION, SECTION_END)
    noise = ("<｜end▁of▁sentence｜>",)
    ends_message = ("<｜User｜>", "<｜tool▁outputs▁begin｜>")

    def forget_region(self) -> None:
        """As ``TaggedCallMachine.forget_region``, and the call's header."""
        super().forget_region()
        self.kind, self.fenced = "", 0

    # -- the header of a call ----------------------------------------------------------------------------------------

    def read_start(self) -> NeedData | None:
        """What stands before the separator: the word ``function``, or in V3.1 the name."""
        at, marker = self.find((SEPARATOR, *self.ends), self.ahead)
        self.ahead = at
        if marker is None:
            return self._wait()
        if marker != SEPARATOR:
            self.reject(marker)
            return None
        self.kind = self.peek(at - len(CALL), len(CALL)).strip()
        self.ahead += len(SEPARATOR)
        self.phase = "name"
        return None

    def read_name(self) -> NeedData | None:
        """The name, which stands here or, when the JSON follows at once, before the separator."""
        char = self.skip_blank()
        if char == "":
            return self._wait()
        if self.kind != "function":
            marker = self.which((CALL_END,))
            if marker is None:
                return self._wait()
            if marker or char in '{"`':
                self.name, self.phase = self.kind, "fence"
                self._check_name()
                return None
        end, marker = self.find(("\n", "`", "{", *self.ends), self.ahead)
        if marker is None:
            return self._wait()
        self.name, self.phase = self.peek(end - self.ahead, self.ahead).strip(), "fence"
        self.ahead = end
        if self.kind != "function" and marker in self.ends:  # V3.1's layout, and no object
            self.name = ""
        self._check_name()
        return None

    def _check_name(self) -> None:
        if not self.name or len(self.name.split()) != 1:
            self.phase = "junk"

    def read_fence(self) -> NeedData | None:
        """A fence, of any language or none, in front of the JSON."""
        char = self.skip_blank()
        if char == "":
            return self._wait()
        if char == "`" and self.fenced == 0:
            return self._fence("word")
        marker = self.which(self.ends)
        if marker is None:
            return self._wait()
        if marker == CALL_END or (char == "`" and not marker):
            self.body = self.complete = self.ahead  # no arguments
            self.phase = "tail"
        elif char in '{"n':
            self.begin_value()
            self.body, self.phase = self.ahead, "json"
        else:
            self.phase = "junk"
        return None

    def read_word(self) -> NeedData | None:
        """The language of the fence."""
        while (char := self.look()).isalpha():
            self.ahead += 1
        if char == "":
            return self._wait()
        self.phase = "fence"
        return None

    def _fence(self, after: str) -> NeedData | None:
        stands = self.stands(FENCE)
        if stands is None:
            return NEED_DATA
        if stands:
            self.ahead += len(FENCE)
            self.fenced += 1
        self.phase = after if stands else "junk"
        return None

    # -- arguments ---------------------------------------------------------------------------------------------------

    def walk_body(self) -> Progress:
        """The JSON is the arguments."""
        return self.walk_arguments()

    def read_tail(self) -> NeedData | None:
        """One closing fence may stand between the JSON and the closer."""
        if self.skip_blank() == "`" and self.fenced < 2:
            self.fenced = 1
            return self._fence("tail")
        return super().read_tail()

    def may_follow(self, char: str) -> bool:  # noqa: ARG002
        """One call, one object."""
        return False

    def is_tail(self, rest: str) -> bool:
        """A fence belongs in front of the closer."""
        return super().is_tail(rest.strip(" \t\r\n`"))

    def region_calls(self) -> list[Call] | None:
        """One call: the name of the header and the arguments of the body."""
        arguments = normalize_arguments(self.peek(self.complete - self.body, self.body))
        return None if arguments is None else [Call(self.name, arguments)]


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Sections of fenced calls, as the V3 and R1 templates write them."""
    tags = [
        call_tag(f"{CALL}function{SEPARATOR}{tool.name}\n{FENCE}json\n", tool, f"\n{FENCE}{CALL_END}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return _section(tags, tool_choice, separator="\n")


def v31_structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Sections of calls without a fence, as the V3.1 template writes them."""
    tags = [call_tag(f"{CALL}{tool.name}{SEPARATOR}", tool, CALL_END) for tool in offered_tools(tools, tool_choice)]
    return _section(tags, tool_choice, separator="")


def _section(tags: list[dict[str, Any]], tool_choice: ToolChoice, *, separator: str) -> Mapping[str, Any] | None:
    return call_section(
        tags, tool_choice, begin=SECTION, end=SECTION_END, separator=separator, excludes=("<think>", "</think>")
    )


_SPECIAL = (SECTION, SECTION_END, CALL, CALL_END, SEPARATOR)
_OPENERS = (SECTION, CALL)
plugin = MachinePlugin(
    DeepSeekV3,
    special_tokens=_SPECIAL,
    tool_call_openers=_OPENERS,
    structural_tag=structural_tag,
    families=[
        ModelFamily(("DeepSeek V3", "DeepSeek R1 and its distillations"), template=("<｜tool▁sep｜>", "```json")),
    ],
)
v31 = MachinePlugin(
    DeepSeekV3,
    description="JSON calls in sections, with the name in front of the separator: DeepSeek V3.1.",
    special_tokens=_SPECIAL,
    tool_call_openers=_OPENERS,
    structural_tag=v31_structural_tag,
    families=[
        ModelFamily(("DeepSeek V3.1", "DeepSeek V3.2-Exp"), template=("<｜tool▁sep｜>",), absent=("```json",)),
    ],
)
