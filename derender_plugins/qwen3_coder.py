"""qwen3_coder: ``<function=NAME>`` with a ``<parameter=KEY>`` tag for each argument, in ``<tool_call>`` tags.

Written by Qwen3-Coder, Qwen3-Coder-Next, Qwen3.5 and later, Nemotron 3, Step 3.5, MiMo. docs/formats/qwen3_coder.md
lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    FunctionTagMachine,
    MachinePlugin,
    ModelFamily,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

OPENER, CLOSER = "<tool_call>", "</tool_call>"


@dataclass
class Qwen3Coder(FunctionTagMachine):
    """A tag for each parameter: Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5."""

    section_openers = (OPENER,)
    section_closers = (CLOSER,)


@dataclass
class MiMo(Qwen3Coder):
    """As Qwen3-Coder, but newlines around a value belong to it: MiMo."""

    framing = ""


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One tag a line, as the template writes it."""
    tags = [
        call_tag(f"{OPENER}\n<function={tool.name}>\n", tool, f"\n</function>\n{CLOSER}", style="qwen_xml")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator="\n", triggers=(f"{OPENER}\n<function=",))


def compact_structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Without line breaks, which would belong to the values."""
    tags = [
        call_tag(f"{OPENER}<function={tool.name}>", tool, f"</function>{CLOSER}", style="qwen_xml")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator="", triggers=(OPENER,))


SPECIAL_TOKENS, OPENERS = (OPENER, CLOSER), (OPENER, "<function=")
plugin = MachinePlugin(
    Qwen3Coder,
    special_tokens=SPECIAL_TOKENS,
    tool_call_openers=OPENERS,
    structural_tag=structural_tag,
    families=[
        ModelFamily(
            ("Qwen3-Coder", "Qwen3.5", "Nemotron 3", "Step 3.5"),
            template=("<tool_call>", "<function=", "<parameter="),
            other_types=("mimo*",),
        ),
    ],
)
mimo = MachinePlugin(
    MiMo,
    special_tokens=SPECIAL_TOKENS,
    tool_call_openers=OPENERS,
    structural_tag=compact_structural_tag,
    families=[
        ModelFamily(("MiMo V2",), template=("<tool_call>", "<function=", "<parameter="), types=("mimo*",)),
    ],
)
