"""minimax_m3: an element for each parameter, with elements in it for lists and objects; and its reasoning.

    section := N"<tool_call>" (call | noise)* [N"</tool_call>"]
    call    := N"<invoke name=" NAME ">" blank (element blank)* N"</invoke>"
    element := N"<" KEY ">" (TEXT | (blank element)* blank) N"</" KEY ">"

where N is ``]<]minimax[>[``, a token of its own. Written by MiniMax M3. docs/formats/minimax_m3.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    AttributeTagMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    ParseContext,
    Prompt,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    dump_json,
    element_json,
    offered_tools,
    parameter_schema,
)

N = "]<]minimax[>["
SECTION, SECTION_END = f"{N}<tool_call>", f"{N}</tool_call>"
INVOKE, INVOKE_END = f"{N}<invoke", f"{N}</invoke>"
THINK, THINK_END = "<mm:think>", "</mm:think>"
MAX_DEPTH = 64
MAX_TAG = 300
"""Characters of the longest tag."""
SWITCHES = {"enabled": True, "disabled": False}
_TAG = re.compile(r"(?P<end>/?)(?P<name>[^<>/\s][^<>\n]*)>")


@dataclass
class MiniMaxM3(AttributeTagMachine):
    """An element for each parameter, which nest, in <tool_call>: MiniMax M3.

    Args:
        path: the elements that are open within the call, each with a ``>`` behind it.
    """

    path: str = ""

    section_openers = (SECTION,)
    section_closers = (SECTION_END,)
    call_openers = (INVOKE,)
    call_closers = (INVOKE_END,)
    parameter_openers = (f"{N}<",)
    parameter_closers = (f"{N}</",)

    def forget_region(self) -> None:
        """As ``AttributeTagMachine.forget_region``, and the elements."""
        super().forget_region()
        self.path = ""

    def read_parameters(self) -> NeedData | None:
        """The next element, or the call's closer."""
        if not self.skip_blank():
            return self._wait()
        tag = self._tag(self.ahead)
        if tag is None:
            return self._wait()
        closes, name, length = tag
        if name == "invoke" and closes:
            self.ahead += length
            self.end_members()
        elif not name or closes:
            self.phase = "junk"
        else:
            self.ahead += length
            self._consume()
            self.path, self.value, self.phase = f"{name}>", self.ahead, "value"
            self.begin_member(name)
        return None

    def _tag(self, at: int) -> tuple[bool, str, int] | None:
        """The tag at offset ``at``: whether it closes, its name, its length. No name: there is none; None to wait."""
        stands = self.starts(f"{N}<", at)
        if stands is None or (not stands and self.is_cut((f"{N}<",), at)):
            return None
        text = self.peek(MAX_TAG, at + len(N) + 1) if stands else ""
        found = _TAG.match(text)
        if found:
            return found["end"] == "/", found["name"].strip(), len(N) + 1 + found.end()
        undecided = stands and len(text) < MAX_TAG and not set("<>\n") & set(text)
        return None if undecided else (False, "", len(N))

    def read_value(self) -> NeedData | None:
        """An element, with those in it, up to its closer."""
        self.ahead, marker = self.find((N,), self.ahead)
        tag = self._tag(self.ahead) if marker else None
        ends = None if tag is None else self._ends(*tag)
        if tag is None or ends is None:
            grown = self.grow_member(self.peek(self.ahead - self.value, self.value)) if self.grows else 0
            self.skip(grown)
            self.ahead -= grown
            return self._wait()
        closes, name, length = tag
        if ends:
            value, self.path = self.peek(self.ahead - self.value, self.value), ""
            self.ahead += 0 if name == "invoke" else length
            self._end_value(value)
            return None
        if name:
            self._walk(name, length, closes=closes)
        self.ahead += length
        if self.path.count(">") > MAX_DEPTH:
            self.phase = "junk"
        return None

    def _walk(self, name: str, length: int, *, closes: bool) -> None:
        """A tag within the parameter. A closer closes what is open within its element, too."""
        if not closes:
            self.path += "" if self.is_text() else f"{name}>"
        elif f">{name}>" in f">{self.path}":
            self.path = self.path[: f">{self.path}".rindex(f">{name}>")]
            self.path = self.path or ("" if self._repeats(self.ahead + length) else f"{self.key}>")

    def _ends(self, closes: bool, name: str, length: int) -> bool | None:
        """Whether this tag ends the parameter: its own closer, or the call's where that is missing."""
        behind = self.ahead + length
        if closes and name == self.key and self.path == f"{self.key}>":
            follows = self.follows(behind, (N,), at_end=True)
            repeats = self._repeats(behind) if follows else False
            return None if follows is None or repeats is None else follows and not repeats
        if closes and name == "invoke" and ">invoke>" not in f">{self.path}":
            return self.follows(behind, self.after_call, at_end=self.ended_normally)
        return False

    def _repeats(self, behind: int) -> bool | None:
        """Whether the same element follows: a list may be written as one element after another."""
        tag = self._tag(self.behind_blank(behind))
        if tag is None:
            return False if self.final else None
        return tag[:2] == (False, self.key) and not self.is_text()

    def is_text(self) -> bool:
        """Of a parameter that nobody knows its elements tell."""
        return parameter_schema(self.schema, self.key) is not None and super().is_text()

    def json_value(self, value: str) -> str:
        """What the elements spell, typed by the tool's schema."""
        if self.is_text():
            return dump_json(value)
        return element_json(value, self.key, N, parameter_schema(self.schema, self.key), self.schema)


@dataclass
class MiniMaxM3Reasoning(ThinkMachine):
    """Reasoning in <mm:think> tags that the model or the prompt opens: MiniMax M3."""

    opener = THINK
    closer = THINK_END

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """``thinking_mode`` opens or closes reasoning in the prompt; by itself the model decides."""
        mode = context.template_kwargs.get("thinking_mode")
        if prompt is None and isinstance(mode, str) and mode in SWITCHES:
            return SWITCHES[mode]
        return super().opens_reasoning(prompt, context)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A section of calls, one a line. The backend's style for the elements needs a schema: all tools must be strict."""
    offered = offered_tools(tools, tool_choice)
    if not all(tool.strict and tool.parameters for tool in offered):
        return None
    calls = [
        call_tag(f'{INVOKE} name="{tool.name}">', tool, f"{INVOKE_END}\n", style="minimax_m3_xml") for tool in offered
    ]
    return call_section(calls, tool_choice, begin=f"{SECTION}\n", end=SECTION_END, separator="")


plugin = MachinePlugin(
    MiniMaxM3,
    special_tokens=(N,),
    tool_call_openers=(SECTION, INVOKE),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("MiniMax M3",), template=(N,)),
    ],
)
reasoning = MachinePlugin(
    MiniMaxM3Reasoning,
    special_tokens=(THINK, THINK_END),
    families=[
        ModelFamily(("MiniMax M3",), template=(THINK,)),
    ],
)
