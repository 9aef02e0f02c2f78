"""kimi_k2: JSON behind an id that holds the function's name, in sections of calls; and its reasoning.

    section := "<|tool_calls_section_begin|>" (call | noise)* ["<|tool_calls_section_end|>"]
    call    := "<|tool_call_begin|>" ID "<|tool_call_argument_begin|>" object "<|tool_call_end|>"
    ID      := "functions." NAME ":" N

Written by Kimi K2, K2 Thinking, K2.5 and K2.6. docs/formats/kimi_k2.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    Call,
    MachinePlugin,
    ModelFamily,
    NeedData,
    Progress,
    TaggedSectionMachine,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    normalize_arguments,
    numbered_tag,
    offered_tools,
)

SECTIONS = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
SECTION_ENDS = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_CANONICAL = re.compile(r"functions\.(?P<name>[^\s:]+):[0-9]+")
_COUNTED = re.compile(r"(?:functions[._])?(?P<name>.*?)(?:[:][0-9]+)?")


@dataclass
class KimiK2(TaggedSectionMachine):
    """JSON calls with ids like functions.NAME:N, in sections: Kimi K2, K2 Thinking, K2.5.

    Args:
        call_id: what stands before the arguments.
    """

    call_id: str = ""

    opener = CALL
    closer = CALL_END
    call_openers = (CALL,)
    section_openers = SECTIONS
    section_closers = SECTION_ENDS
    breaks = (*SECTIONS, *SECTION_ENDS)
    trim = False

    def forget_region(self) -> None:
        """As ``TaggedCallMachine.forget_region``, and the call's id."""
        super().forget_region()
        self.call_id = ""

    def start_call(self, name: str, call_id: str | None = None) -> None:
        """The model expects its own id back; one of another form is replaced by the form that it knows."""
        canonical = _CANONICAL.fullmatch(self.call_id)
        own = self.call_id if canonical and canonical["name"] == name else f"functions.{name}:{self.calls}"
        super().start_call(name, call_id or own)

    # -- a call ------------------------------------------------------------------------------------------------------

    def read_start(self) -> NeedData | None:
        """The id, which holds the name."""
        self.ahead, marker = self.find((ARGUMENTS, *self.ends), self.ahead)
        if marker is None:
            return self._wait()
        if marker != ARGUMENTS:
            self.reject(marker)
            return None
        self.call_id = "".join(self.peek(self.ahead - len(CALL), len(CALL)).split())
        self.name = self._name()
        self.ahead += len(ARGUMENTS)
        self.phase = "arguments" if self.name else "junk"
        return None

    def _name(self) -> str:
        """The name in the id: as it is written, else the longest offered name in it."""
        offered = self.context.tool_names
        counted = _COUNTED.fullmatch(self.call_id)
        name = counted["name"] if counted else self.call_id
        if name in offered:
            return name
        inside = [name for name in offered if name in self.call_id]
        if inside:
            return max(inside, key=lambda name: (len(name), name))
        if len(offered) == 1 and re.fullmatch(r"(?:functions)?[._:]?[0-9]+|call_\w+", self.call_id):
            return next(iter(offered))
        return name

    def read_arguments(self) -> NeedData | None:
        """From the id to the object; a closed call without any has no arguments."""
        char = self.skip_blank()
        marker = self.which(self.ends) if char else None
        if marker is None:
            return self._wait()
        if marker == CALL_END:
            self.body = self.complete = self.ahead
            self.phase = "tail"
        elif not marker and char in '{"n':
            self.begin_value()
            self.body, self.phase = self.ahead, "json"
        else:
            self.phase = "junk"
        return None

    def walk_body(self) -> Progress:
        """The JSON is the arguments."""
        return self.walk_arguments()

    def may_follow(self, char: str) -> bool:  # noqa: ARG002
        """One call, one object."""
        return False

    def region_calls(self) -> list[Call] | None:
        """One call: the name of the id and the arguments of the body."""
        arguments = normalize_arguments(self.peek(self.complete - self.body, self.body))
        return None if arguments is None else [Call(self.name, arguments)]

    def accept(self, calls: list[Call]) -> None:
        """As ``TaggedCallMachine.accept``, with the call's id."""
        call_id = self.call_id
        if self.announced:
            self.end_call()
        self.end_region()
        self.call_id = call_id
        for call in calls:
            self.call(call)
        self.call_id, self.phase = "", self.outside


@dataclass
class KimiK2Reasoning(ThinkMachine):
    """Reasoning in <think> tags that the model or the prompt opens, verbatim: Kimi K2 Thinking, K2.5."""

    spellings = (("◁think▷", "◁/think▷"),)
    strip_newlines = False
    when_prompt_is_unknown = True
    switches = ("thinking", "enable_thinking")


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Sections of calls. The counter in the ids runs over the whole conversation, so it is any number."""
    tags = []
    for tool in offered_tools(tools, tool_choice):
        tag = call_tag(f"{CALL}functions.{tool.name}:", tool, CALL_END)
        tags.append(numbered_tag(tag, ARGUMENTS))
    return call_section(tags, tool_choice, begin=SECTIONS[0], end=SECTION_ENDS[0], separator="")


plugin = MachinePlugin(
    KimiK2,
    special_tokens=(*SECTIONS, *SECTION_ENDS, CALL, ARGUMENTS, CALL_END),
    tool_call_openers=(*SECTIONS, CALL),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Kimi K2", "Kimi K2 Thinking", "Kimi K2.5"), template=(SECTIONS[0],)),
    ],
)
reasoning = MachinePlugin(
    KimiK2Reasoning,
    special_tokens=("<think>", "</think>", "◁think▷", "◁/think▷"),
    families=[
        ModelFamily(("Kimi K2 Thinking", "Kimi K2.5"), template=("<|im_middle|>", "</think>")),
    ],
)
