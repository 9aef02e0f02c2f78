"""seed_oss: Qwen's tags for functions and parameters in ``<seed:tool_call>``, reasoning in ``<seed:think>``.

Written by Seed-OSS. docs/formats/seed_oss.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    FunctionTagMachine,
    MachinePlugin,
    ModelFamily,
    ParseContext,
    Prompt,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

OPENER, CLOSER = "<seed:tool_call>", "</seed:tool_call>"
THINK, THINK_END = "<seed:think>", "</seed:think>"
TURN_TOKENS = ("<seed:bos>", "<seed:eos>")


@dataclass
class SeedOss(FunctionTagMachine):
    """A tag for each parameter, in <seed:tool_call>: Seed-OSS."""

    section_openers = (OPENER,)
    section_closers = (CLOSER,)
    noise = TURN_TOKENS


@dataclass
class SeedOssReasoning(ThinkMachine):
    """Reasoning in <seed:think> tags that the model or the prompt opens: Seed-OSS."""

    opener = THINK
    closer = THINK_END
    when_prompt_is_unknown = True
    noise = TURN_TOKENS

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """A thinking budget of 0 closes reasoning in the prompt."""
        if prompt is None and context.template_kwargs.get("thinking_budget") == 0:
            return False
        return super().opens_reasoning(prompt, context)


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """One tag a line, as the template writes it."""
    tags = [
        call_tag(f"{OPENER}\n<function={tool.name}>\n", tool, f"\n</function>\n{CLOSER}", style="qwen_xml")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator="\n", triggers=(OPENER,))


plugin = MachinePlugin(
    SeedOss,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER, "<function="),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Seed-OSS",), template=(OPENER,)),
    ],
)
reasoning = MachinePlugin(
    SeedOssReasoning,
    special_tokens=(THINK, THINK_END),
    families=[
        ModelFamily(("Seed-OSS",), template=(THINK,)),
    ],
)
