"""deepseek_r1: reasoning up to ``</think>``, which the prompt or the model opened.

Written by DeepSeek R1, its distills and QwQ. docs/formats/deepseek_r1.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, ThinkMachine


@dataclass
class DeepSeekR1(ThinkMachine):
    """Reasoning up to </think>, open unless the prompt closed it: DeepSeek R1, its distills, QwQ."""

    when_prompt_is_silent = True
    when_prompt_is_unknown = True
    noise = ("<｜end▁of▁sentence｜>",)
    ends_message = ("<｜User｜>", "<｜tool▁outputs▁begin｜>")


plugin = MachinePlugin(
    DeepSeekR1,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(
            ("DeepSeek R1 and its distillations",),
            template=("<｜Assistant｜>", "</think>"),
            absent=("set thinking", "｜DSML｜"),
        ),
    ],
)
