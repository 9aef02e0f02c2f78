"""kimi_k3: elements of control tokens (XTML), for reasoning, answer and calls. One machine serves both slots.

    message  := [think] [response] [tools] close(message)
    think    := open(think) TEXT close(think)
    response := open(response) TEXT close(response)
    tools    := open(tools) call* close(tools)
    call     := open(call tool="NAME" index="N") argument* close(call)
    argument := open(argument key="KEY" type="TYPE") VALUE close(argument)

where ``open(x)`` is ``<|open|>x<|sep|>`` and ``close(x)`` is ``<|close|>x<|sep|>``. Written by Kimi K3; the prompt
usually opens the first element. Where token ids are known, text that looks like a marker is text.
docs/formats/kimi_k3.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    CombinedMachine,
    MachinePlugin,
    MemberCallMachine,
    ModelFamily,
    NeedData,
    ParseContext,
    Prompt,
    State,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    call_tags,
    dump_json,
    numbered_tag,
    offered_tools,
    schema_types,
    typed_value,
)

OPEN, CLOSE, SEP, END = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"
TAGS = (OPEN, CLOSE, END)
TOOLS, THINK, RESPONSE = f"{OPEN}tools{SEP}", f"{OPEN}think{SEP}", f"{OPEN}response{SEP}"
THINK_END, RESPONSE_END, TOOLS_END = (f"{CLOSE}{name}{SEP}" for name in ("think", "response", "tools"))
CALL_END, ARGUMENT_END, MESSAGE_END = (f"{CLOSE}{name}{SEP}" for name in ("call", "argument", "message"))
SWITCHES = ("thinking", "enable_thinking")
ELEMENTS = {"think": "reasoning", "response": "content", "tools": "tools"}
PLACES = {"between", "content", "literal", "reasoning", "raw", "tools", "call", "skipped"}
ANYTHING = schema_types({})
_ATTRIBUTE = re.compile(r'([\w-]+)\s*=\s*"([^"]*)"')


@dataclass
class KimiK3(CombinedMachine, MemberCallMachine):
    """Elements of control tokens: Kimi K3.

    Args:
        place: the phase that the tag being read stands in.
        skips: the element that is being skipped.
        back: the phase that it stands in.
    """

    phase: str = "outset"
    place: str = "content"
    skips: str = ""
    back: str = "content"

    trim = False
    control_markers = True
    call_openers = section_openers = section_closers = TAGS

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """The last tag of the prompt's last message, else the request's switches; by itself the model reasons."""
        if prompt is not None:
            turn = prompt.turn_after(f"{OPEN}message")
            at, tag = max((turn.rfind(tag), tag) for tag in (THINK, THINK_END, RESPONSE))
            return tag == THINK if at >= 0 else None
        switches = [context.template_kwargs[name] for name in SWITCHES if context.template_kwargs.get(name) is not None]
        return bool(switches[0]) if switches else True

    @property
    def outside(self) -> str:
        """Calls stand among the tools."""
        return "tools"

    def read_outset(self) -> None:
        """The prompt has opened the first element, or the model does."""
        inside = self.reasons and self.context.reasoning_open
        self.phase = "reasoning" if inside else "raw" if self.passes else "between"

    # -- text --------------------------------------------------------------------------------------------------------

    def read_between(self) -> NeedData | None:
        """Blank text outside of elements vanishes, any other is content."""
        char = self.skip_blank()
        marker = self.which(TAGS) if char else ""
        if marker is None or (char == "" and not self.final):
            return NEED_DATA
        self.skip(self.ahead if marker else 0)
        self.ahead, self.phase = 0, "content"
        return None

    def read_content(self) -> NeedData | None:
        """The answer."""
        return self._read_text(lambda count: self.content(self.take(count)))

    def read_reasoning(self) -> NeedData | None:
        """Reasoning."""
        return self._read_text(self.reason)

    def read_raw(self) -> NeedData | None:
        """What is for the other half."""
        return self._read_text(self.emit_text)

    def read_tools(self) -> NeedData | None:
        """Among the calls text is noise."""
        return self._read_text(self.skip)

    def read_call(self) -> NeedData | None:
        """So it is among the arguments of a call."""
        return self._read_text(self.skip)

    def read_literal(self) -> NeedData | None:
        """Calls of a request without tools are text."""
        return self.read_content()

    def read_skipped(self) -> NeedData | None:
        """An element without meaning."""
        return self._read_text(self.skip)

    def _read_text(self, consume: Callable[[int], None]) -> NeedData | None:
        """Text up to a tag."""
        count, marker = self.find(TAGS)
        if count:
            consume(count)
        if marker is None:
            return self._end() if self.final else NEED_DATA
        self.place, self.phase, self.ahead = self.phase, "tag", len(marker)
        return None

    def read_done(self) -> NeedData:
        """The message is over."""
        return self._end()

    def _end(self) -> NeedData:
        self.skip(self.waiting)
        self.ahead = 0
        if self.final:
            self.end_content()
        return NEED_DATA

    # -- tags --------------------------------------------------------------------------------------------------------

    def read_tag(self) -> NeedData | None:
        """A tag, which begins at the cursor."""
        begin = self.which(TAGS, 0) or END
        if begin == END:
            self.place = "raw" if self.passes else self.place
            self._consume()
            self.phase = "done"
            return None
        size = len(begin)
        self.ahead, marker = self.find((SEP, *TAGS), self.ahead)
        if marker is None:
            return self._end() if self.final else NEED_DATA
        element, _, attributes = self.peek(self.ahead - size, size).strip().partition(" ")
        if marker != SEP:  # a head without its end
            self._consume()
            return None
        self.ahead += len(SEP)
        if begin == CLOSE:
            self._close(element)
        else:
            self._open(element, {key: _unescape(value) for key, value in _ATTRIBUTE.findall(attributes)})
        return None

    def _consume(self) -> None:
        """The tag was read."""
        if self.place == "raw":
            self.emit_text(self.ahead)
        elif self.place == "literal":
            self.content(self.take(self.ahead))
        else:
            self.skip(self.ahead)
        self.ahead, self.phase = 0, self.place

    def _close(self, element: str) -> None:
        if self.place == "reasoning" and element == "message" and self.passes:
            self.place = "raw"
        self._consume()
        if element == "message":
            self.phase = "done"
        elif self.place == "reasoning":
            if element == "think":
                self._end_reasoning()
        elif element == "tools" and self.place != "raw":
            self.forget_region()
            self.phase = "between"
        elif self.place == "skipped":
            self.phase = self.back if element == self.skips else "skipped"
        elif self.place == "call" and element == "call":
            self.end_members()
        elif self.place == "content":
            self.phase = "between"

    def _open(self, element: str, attributes: dict[str, str]) -> None:
        if self.place == "reasoning" and element in ("response", "tools"):
            self._end_reasoning()
            self.place = self.phase
        if self.place == "raw" and element == "think":
            self.place = "reasoning"
        if self.place in ("between", "content") and element == "tools" and self.reasons:
            self.place = "literal"
        self._consume()
        if self.place == "raw":
            self.phase = "raw_value" if element == "argument" else "raw"
        elif element in ELEMENTS and self.place not in ("reasoning", "literal"):
            self.forget_region()
            self.phase = ELEMENTS[element]
        elif self.place in ("tools", "call") and element == "call" and attributes.get("tool"):
            self.forget_region()
            self.name, self.phase = attributes["tool"], "call"
            self.announce()
        elif self.place == "call" and element == "argument" and "key" in attributes:
            self.begin_member(attributes["key"], attributes.get("type", ""))
            self.phase = "value"
        elif self.place in ("content", "between", "tools", "call"):
            self.back, self.skips, self.phase = self.place, element, "skipped"

    def _end_reasoning(self) -> None:
        self.end_reasoning()
        self.phase = "raw" if self.passes else "between"

    # -- values ------------------------------------------------------------------------------------------------------

    def is_text(self) -> bool:
        """The tag says so; without a type the schema does."""
        return self.hint == "string" if self.hint else super().is_text()

    def json_value(self, value: str) -> str:
        """As the tag says: a text, or JSON as far as it is JSON. Without a type the schema decides."""
        if self.hint == "string":
            return dump_json(value)
        return typed_value(value, ANYTHING) if self.hint else super().json_value(value)

    def read_value(self) -> NeedData | None:
        """An argument's value, up to its closer."""
        self.ahead, marker = self.find(TAGS, self.ahead)
        ends = None if marker is None else self._ends_argument(self.ahead)
        if ends is None:
            self._grow()
            return self._end() if self.final else NEED_DATA
        if ends:
            value, self.ahead, self.phase = self.take(self.ahead), 0, "call"
            self.skip(len(ARGUMENT_END))
            self.add_member(value)
        elif self.by_token:  # another tag: the call is malformed
            self._grow()
            self.skip(self.ahead)
            self.ahead, self.phase = 0, "tools"
            self.forget_region()
        else:
            self.ahead += len(marker or "")
        return None

    def _grow(self) -> None:
        """Send what was read of a value that may be sent while it grows."""
        grown = self.grow_member(self.peek(self.ahead)) if self.grows else 0
        self.skip(grown)
        self.ahead -= grown

    def read_raw_value(self) -> NeedData | None:
        """A value for the other half. What looks like a tag in it is not looked at."""
        count, marker = self.find(TAGS)
        self.emit_text(count)
        ends = None if marker is None else self._ends_argument(0)
        if ends is None:
            return NEED_DATA
        if ends or self.by_token:
            self.emit_text(len(ARGUMENT_END) if ends else 0)
            self.phase = "raw"
        else:
            self.emit_text(len(marker or ""))
        return None

    def _ends_argument(self, at: int) -> bool | None:
        """Whether an argument's closer stands at ``at``, where a tag begins; None when that is not certain yet."""
        seen = self.peek(len(ARGUMENT_END), at)
        if seen != ARGUMENT_END:
            return None if ARGUMENT_END.startswith(seen) and not self.final else False
        return bool(self.starts(SEP, at + len(ARGUMENT_END) - len(SEP)))

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``MemberCallMachine.check``, and that tags stand where they can."""
        wrong = super().check(state)
        if not wrong and not {state.get("place", "content"), state.get("back", "content")} <= PLACES:
            return "fields 'place' and 'back' must be places of tags"
        return wrong


@dataclass
class KimiK3Reasoning(KimiK3):
    """The element think as reasoning: Kimi K3."""

    reasons = True


def _unescape(text: str) -> str:
    return text.replace("&quot;", '"').replace("&amp;", "&")


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """The element tools; where nothing else may come, behind an answer that the prompt opened, too, and at the end."""
    auto = tool_choice == "auto"
    end = TOOLS_END if auto else f"{TOOLS_END}{MESSAGE_END}"
    calls = [_call_tag(tool) for tool in offered_tools(tools, tool_choice)]
    sections = [
        call_section(calls, "required" if auto else tool_choice, begin=begin, end=end, separator="")
        for begin in (TOOLS, *(() if auto else (f"{RESPONSE_END}{TOOLS}",)))
    ]
    return call_tags([section for section in sections if section], tool_choice, separator="", triggers=(TOOLS,))


def _call_tag(tool: Tool) -> dict[str, Any]:
    """A call with its number, which may be any."""
    call = call_tag(f'{OPEN}call tool="{tool.name}" index="', tool, CALL_END, style="kimi_k3_xml")
    return numbered_tag(call, f'"{SEP}')


plugin = MachinePlugin(
    KimiK3,
    special_tokens=(OPEN, CLOSE, SEP, END),
    tool_call_openers=(TOOLS,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Kimi K3",), tokens=(OPEN, CLOSE, SEP)),
    ],
)
reasoning = MachinePlugin(
    KimiK3Reasoning,
    special_tokens=(OPEN, CLOSE, SEP, END),
    families=[
        ModelFamily(("Kimi K3",), tokens=(OPEN, CLOSE, SEP)),
    ],
)
