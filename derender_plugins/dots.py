"""dots: ``<invoke name="NAME">`` with a ``<parameter name="KEY">`` tag for each argument, in ``<dots_function_call>``.

    block := "<dots_function_call>" blank (call blank)* ["</dots_function_call>"]

Written by the dots models. docs/formats/dots.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    AttributeTagMachine,
    MachinePlugin,
    ModelFamily,
    Tool,
    ToolChoice,
    call_section,
    call_tag,
    offered_tools,
)

OPENER, CLOSER = "<dots_function_call>", "</dots_function_call>"
INVOKE = "<invoke name="


@dataclass
class Dots(AttributeTagMachine):
    """A tag for each parameter, in <dots_function_call>: dots."""

    section_openers = (OPENER,)
    section_closers = (CLOSER,)
    call_openers = ("<invoke",)
    call_closers = ("</invoke>",)
    parameter_openers = ("<parameter", "<param")
    parameter_closers = ("</parameter>", "</param>")


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A block of calls, one tag a line."""
    tags = [
        call_tag(f'{INVOKE}"{tool.name}">\n', tool, "</invoke>\n", style="minimax_xml")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_section(tags, tool_choice, begin=f"{OPENER}\n", end=CLOSER, separator="")


plugin = MachinePlugin(
    Dots,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER, INVOKE),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("dots",), template=(OPENER,)),
    ],
)
