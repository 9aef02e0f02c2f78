"""minicpm5: ``<function name="NAME">`` with a ``<param name="KEY">`` tag for each argument.

    call  := "<function name=" NAME ">" blank (param blank)* "</function>"
    param := "<param name=" KEY ">" (VALUE | blank "<![CDATA[" VALUE "]]>" blank) "</param>"

Written by MiniCPM 5. docs/formats/minicpm5.md lists every rule.
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
    Tool,
    ToolChoice,
    call_tags,
    offered_tools,
    parameters_node,
    tag_node,
)

FUNCTION, FUNCTION_END = "<function", "</function>"
PARAM, PARAM_END = "<param", "</param>"
CDATA, CDATA_END = "<![CDATA[", "]]>"
LOOK_BACK = 64
"""How far from its parameter's closer the end of CDATA may stand, in characters."""


@dataclass
class MiniCpm5(AttributeTagMachine):
    """A tag for each parameter, whose value may stand in CDATA: MiniCPM 5."""

    section_openers = ()
    section_closers = ()
    call_openers = (FUNCTION,)
    call_closers = (FUNCTION_END,)
    parameter_openers = (PARAM,)
    parameter_closers = (PARAM_END,)

    def ends_value(self, at: int, marker: str) -> bool | None:
        """Within CDATA every tag is data."""
        begin = self.behind_blank(self.value)
        end = self.peek(min(at - begin, LOOK_BACK), max(begin, at - LOOK_BACK))
        if self._is_quoted(self.peek(len(CDATA), begin)) and not end.rstrip().endswith(CDATA_END):
            return False
        return super().ends_value(at, marker)

    def grow_member(self, text: str) -> int:
        """What may be CDATA waits for its end."""
        if not self.grown and (self._is_quoted(text) or CDATA.startswith(text.strip())):
            return 0
        return super().grow_member(text)

    def add_member(self, value: str) -> None:
        """The markers of CDATA, and what is blank around them, are no part of the value."""
        if self._is_quoted(value) and value.rstrip().endswith(CDATA_END):
            value = value.strip().removeprefix(CDATA).removesuffix(CDATA_END)
        super().add_member(value)

    def _is_quoted(self, value: str) -> bool:
        return not self.grown and value.lstrip().startswith(CDATA)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Calls in one line each, values without CDATA."""
    calls = [
        tag_node(f'{FUNCTION} name="{tool.name}">', parameters_node(tool, _parameter_tag), FUNCTION_END)
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(calls, tool_choice, separator="\n", triggers=(f"{FUNCTION} name=",))


def _parameter_tag(parameter: Parameter) -> dict[str, Any]:
    return tag_node(f'{PARAM} name="{parameter.name}">', parameter.bare, PARAM_END)


plugin = MachinePlugin(
    MiniCpm5,
    special_tokens=(FUNCTION, FUNCTION_END, PARAM, PARAM_END, CDATA, CDATA_END),
    tool_call_openers=(f"{FUNCTION} name=",),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("MiniCPM 5",), template=(f"{FUNCTION} name=", f"{PARAM} name=")),
    ],
)
