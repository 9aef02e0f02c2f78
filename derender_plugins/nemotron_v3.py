"""nemotron_v3: ``<think>…</think>`` that the model, or the prompt, opens.

Written by Nemotron 3, whose calls are qwen3_coder's. docs/formats/nemotron_v3.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, ThinkMachine


@dataclass
class NemotronV3(ThinkMachine):
    """Reasoning in <think> tags that the model or the prompt opens: Nemotron 3."""

    when_prompt_is_unknown = True
    switches = ("enable_thinking",)


plugin = MachinePlugin(
    NemotronV3,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(("Nemotron 3",), template=("<|im_start|>", "<think>", "enable_thinking"), types=("nemotron_h*",)),
    ],
)
