"""olmo3: Python calls, one a line, between ``<function_calls>`` tags; olmo3 (reasoning): ``<think>…</think>``.

    output := (text | "<function_calls>" (call newline)* "</function_calls>")*

Written by OLMo 3. docs/formats/olmo3.md lists every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ModelFamily, PythonListMachine, ThinkMachine

OPENER, CLOSER = "<function_calls>", "</function_calls>"


@dataclass
class Olmo3(PythonListMachine):
    """Python calls, one a line, in <function_calls> tags: OLMo 3."""

    openers = (OPENER,)
    closers = (CLOSER,)


@dataclass
class Olmo3Reasoning(ThinkMachine):
    """Reasoning in <think> tags that the prompt or the model opens: OLMo 3."""

    when_prompt_is_unknown = True


plugin = MachinePlugin(
    Olmo3,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    families=[
        ModelFamily(("OLMo 3",), template=(OPENER,), types=("olmo*",)),
    ],
)
reasoning = MachinePlugin(
    Olmo3Reasoning,
    special_tokens=("<think>", "</think>"),
    families=[
        ModelFamily(("OLMo 3",), template=("<think>",), types=("olmo*",)),
    ],
)
