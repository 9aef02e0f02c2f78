"""deepseek_v3 (reasoning): as R1 when thinking is on, but verbatim, and nothing at all when it is off.

Written by DeepSeek V3 and V3.1 in thinking mode. docs/formats/deepseek_v3_reasoning.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, ThinkMachine


@dataclass
class DeepSeekV3Reasoning(ThinkMachine):
    """Reasoning up to </think> when the prompt or the request turned thinking on: DeepSeek V3, V3.1."""

    when_prompt_is_silent = False
    when_prompt_is_unknown = False
    plain_when_closed = True
    strip_newlines = False
    switches = ("thinking", "enable_thinking")
    noise = ("<｜end▁of▁sentence｜>",)
    ends_message = ("<｜User｜>", "<｜tool▁outputs▁begin｜>")

    @classmethod
    def switched(cls, on: bool) -> bool:
        """Thinking is off by itself, so the switch says all."""
        return on


plugin = MachinePlugin(
    DeepSeekV3Reasoning,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(
            ("DeepSeek V3.1", "DeepSeek V3.2-Exp"),
            template=("<｜Assistant｜>", "</think>", "set thinking"),
            absent=("｜DSML｜",),
        ),
        ModelFamily(("DeepSeek V3.2",), template=("｜DSML｜", "function_calls>")),
        ModelFamily(("DeepSeek V3.2",), types=("deepseek_v32",), untemplated=True),
    ],
)
