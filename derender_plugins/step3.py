"""step3: ``<steptml:invoke name="NAME">`` with a tag for each parameter, in sections of calls; and its reasoning.

    section := "<｜tool_calls_begin｜>" (call | noise)* ["<｜tool_calls_end｜>"]
    call    := ["<｜tool_call_begin｜>" "function" "<｜tool_sep｜>"] invoke ["<｜tool_call_end｜>"]
    invoke  := "<steptml:invoke name=NAME>" blank (parameter blank)* "</steptml:invoke>"

Written by Step 3. The bar is U+FF5C; between the words stands an ordinary underscore, unlike DeepSeek's markers.
docs/formats/step3.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    AttributeTagMachine,
    MachinePlugin,
    ModelFamily,
    Parameter,
    TagHead,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    offered_tools,
    parameters_node,
    tag_node,
)

SECTION, SECTION_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
CALL, CALL_END = "<｜tool_call_begin｜>", "<｜tool_call_end｜>"
SEPARATOR = "<｜tool_sep｜>"
INVOKE, INVOKE_END = "<steptml:invoke", "</steptml:invoke>"
PARAMETER, PARAMETER_END = "<steptml:parameter", "</steptml:parameter>"


@dataclass
class Step3(AttributeTagMachine):
    """A tag for each parameter, in sections of calls: Step 3."""

    section_openers = (SECTION,)
    section_closers = (SECTION_END,)
    call_openers = (CALL, INVOKE)
    call_closers = (INVOKE_END,)
    parameter_openers = (PARAMETER,)
    parameter_closers = (PARAMETER_END,)
    explicit = True
    noise = (CALL_END,)

    @property
    def after_call(self) -> tuple[str, ...]:
        """The call's own closer may follow, too."""
        return (CALL_END, *super().after_call)

    def find_head(self, *, of_call: bool) -> tuple[int, bool] | None:
        """In front of the tag the kind of the call may stand."""
        if of_call and not self.value and self.which((CALL,), 0):
            self.ahead, marker = self.find((INVOKE, CALL, CALL_END, SECTION, SECTION_END), self.ahead)
            if marker is None:
                return None
            if marker != INVOKE:
                return self.ahead, False
            self.value, self.ahead = self.ahead, self.ahead + len(INVOKE)
        return super().find_head(of_call=of_call)

    def call_head(self, text: str) -> TagHead | None:
        """The tag that names the function; in front of it nothing but its kind."""
        kind = text[: self.value].removeprefix(CALL).strip().removesuffix(SEPARATOR).strip()
        return super().call_head(text[self.value :]) if kind in ("", "function") else None


@dataclass
class Step3Reasoning(ThinkMachine):
    """Reasoning up to </think>, open unless the prompt closed it: Step 3, Step 3.5."""

    when_prompt_is_silent = True
    when_prompt_is_unknown = True


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A section of calls in one line, as the template writes it."""
    begin, end = f"{CALL}function{SEPARATOR}{INVOKE} name=", f"{INVOKE_END}{CALL_END}"
    calls = [
        tag_node(f'{begin}"{tool.name}">', parameters_node(tool, _parameter_tag), end)
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_section(calls, tool_choice, begin=SECTION, end=SECTION_END, separator="")


def _parameter_tag(parameter: Parameter) -> dict[str, Any]:
    return tag_node(f'{PARAMETER} name="{parameter.name}">', parameter.bare, PARAMETER_END)


plugin = MachinePlugin(
    Step3,
    special_tokens=(SECTION, SECTION_END, CALL, CALL_END, SEPARATOR),
    tool_call_openers=(SECTION, CALL, INVOKE),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Step 3",), template=(SECTION,)),
    ],
)
reasoning = MachinePlugin(
    Step3Reasoning,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(("Step 3", "Step 3.5"), template=("<think>",), types=("step3*",)),
    ],
)
