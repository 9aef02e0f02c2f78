"""gemma4 and functiongemma: calls with arguments of a notation of their own; gemma4 (reasoning): a channel.

    call      := "<|tool_call>" ["call"] [":"] NAME arguments "<tool_call|>"
    arguments := as in ``BareKeyCallMachine``, with the quote "<|\\"|>" in gemma4 and "<escape>" in functiongemma
    reasoning := "<|channel>thought\\n" TEXT "\\n" "<channel|>"

Written by Gemma 4 and FunctionGemma. docs/formats/gemma4.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from derender_core import (
    NEED_DATA,
    BareKeyCallMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    Parameter,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
    parameters_node,
    tag_node,
)

OPENER, CLOSER, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
FUNCTION, FUNCTION_END, ESCAPE = "<start_function_call>", "<end_function_call>", "<escape>"
TURN_ENDS = ("<turn|>", "<|tool_response>")
_HEAD = re.compile(r"\s*(?:call\s*:|:)?\s*(?P<name>[\w.\-/]+(?::[\w.\-/]+)*)\s*")


@dataclass
class Gemma4(BareKeyCallMachine):
    """Calls like call:NAME{key:<|"|>text<|"|>} between markers: Gemma 4."""

    phase: str = "content"

    call_openers = (OPENER,)
    call_closers: ClassVar[tuple[str, ...]] = (CLOSER,)
    section_openers = section_closers = ()
    ends_message = TURN_ENDS
    mark_of_text: ClassVar[str] = QUOTE

    # -- text --------------------------------------------------------------------------------------------------------

    def read_content(self) -> NeedData | None:
        """Text until a call. A closer without a call is swallowed."""
        marker = self.content_until((*self.call_openers, *self.call_closers, *self.ends_message))
        if marker is None:
            return NEED_DATA
        if marker in self.call_openers:
            self.begin_region(marker)
            self.mark, self.phase = self.ahead, "head"
        else:
            self.skip(len(marker))
            self.removed = True
            self.phase = "done" if marker in self.ends_message else "content"
        return None

    # -- a call --------------------------------------------------------------------------------------------------------

    def read_head(self) -> NeedData | None:
        """The name, up to the bracket."""
        self.ahead, marker = self.find(("{", "(", *self.ends), self.ahead)
        if marker is None:
            return self.wait()
        head = _HEAD.fullmatch(self.peek(self.ahead - self.mark, self.mark))
        if head is None or marker in self.ends:
            self.phase = "junk"
            return None
        self.name = head["name"]
        self.ahead += 1
        self.open_arguments(marker)
        return None

    # -- the end of a call -------------------------------------------------------------------------------------------

    def read_tail(self) -> NeedData | None:
        """From the bracket to the closer."""
        char = self.skip_blank()
        marker = self.which(self.ends) if char else None
        if marker is None or (not marker and self.is_cut(self.ends, self.ahead)):
            return self.wait()
        if marker:
            self.ahead += len(marker) if marker in self.call_closers else 0
            self.end_members()
        else:
            self.phase = "junk"
        return None

    def read_junk(self) -> NeedData | None:
        """A malformed call, until a marker ends it."""
        self.ahead, marker = self.find(self.ends, self.ahead)
        if marker is None:
            return self.wait()
        self.ahead += len(marker) if marker in self.call_closers else 0
        self.end_region(as_text=not self.sent)
        self.phase = "content"
        return None

    def wait(self) -> NeedData | None:
        """The call is not complete; at the end of the output it is dropped, unless only its closer is missing."""
        if not self.final:
            return NEED_DATA
        if self.phase == "text" and self.take_swallowing_text():
            return None
        if self.phase == "tail" and self.ended_normally:
            self.ahead = self.waiting
            self.end_members()
            return None
        as_text = self.phase in ("head", "junk") and self.ended_normally and not self.sent
        self.ahead = self.waiting
        self.end_region(as_text=as_text)
        self.phase = "content"
        return None


@dataclass
class FunctionGemma(Gemma4):
    """Calls like call:NAME{key:<escape>text<escape>} between markers: FunctionGemma."""

    call_openers = (FUNCTION,)
    call_closers = (FUNCTION_END,)
    ends_message = ("<end_of_turn>", "<start_function_response>")
    mark_of_text = ESCAPE


@dataclass
class Gemma4Reasoning(ThinkMachine):
    """Reasoning in the channel thought: Gemma 4."""

    opener = "<|channel>thought\n"
    closer = "<channel|>"
    spellings = (("<|channel>", "<channel|>"),)
    reopens = True
    strip_newlines = False
    strip_last_newline = True
    ends_message = TURN_ENDS


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Calls one behind another, with arguments in a style that grammar backends know."""
    calls = [
        call_tag(f"{OPENER}call:{tool.name}", tool, CLOSER, style="gemma") for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(calls, tool_choice, separator="", triggers=(OPENER,))


def function_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """As Gemma 4's, but no backend knows this quote: each argument is a tag. What nests is JSON, which is read, too."""
    calls = [
        tag_node(f"{FUNCTION}call:{tool.name}{{", parameters_node(tool, _member, separator=","), f"}}{FUNCTION_END}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(calls, tool_choice, separator="", triggers=(FUNCTION,))


def _member(parameter: Parameter) -> dict[str, Any]:
    if "string" in parameter.types or not parameter.types:
        return tag_node(f"{parameter.name}:{ESCAPE}", parameter.text, ESCAPE)
    return tag_node(f"{parameter.name}:", parameter.json, "")


plugin = MachinePlugin(
    Gemma4,
    special_tokens=(OPENER, CLOSER, QUOTE),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Gemma 4",), template=(OPENER, QUOTE)),
    ],
)
functiongemma = MachinePlugin(
    FunctionGemma,
    special_tokens=(FUNCTION, FUNCTION_END, ESCAPE),
    tool_call_openers=(FUNCTION,),
    structural_tag=function_tag,
    families=[
        ModelFamily(("FunctionGemma",), template=(FUNCTION,)),
    ],
)
reasoning = MachinePlugin(
    Gemma4Reasoning,
    special_tokens=("<|channel>", "<channel|>"),
    families=[
        ModelFamily(("Gemma 4",), template=("<|channel>",)),
    ],
)
