"""qwen3: ``<think>…</think>`` that the model, or the prompt, opens.

Written by Qwen3 (hybrid and Thinking-2507) and later. docs/formats/qwen3.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, ThinkMachine


@dataclass
class Qwen3(ThinkMachine):
    """Reasoning in <think> tags that the model or the prompt opens: Qwen3 and later."""

    when_prompt_is_unknown = True
    switches = ("enable_thinking",)


plugin = MachinePlugin(
    Qwen3,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(
            ("Qwen3", "QwQ", "Qwen3.5", "MiMo V2"), template=("<|im_start|>", "</think>"), types=("qwen*", "mimo*")
        ),
    ],
)
