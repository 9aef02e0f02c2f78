"""olmo3: Python calls, one a line, between ``<function_calls>`` tags; olmo3 (reasoning): ``<think>…</think>``.

    output := (text | "<function_calls>" (call newline)* "</function_calls>")*

Written by OLMo 3. docs/formats/olmo3.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    MachinePlugin,
    ModelFamily,
    PythonListMachine,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_section,
    python_call_tags,
)

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


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Calls, one a line."""
    calls = python_call_tags(tools, tool_choice)
    return call_section(calls, tool_choice, begin=OPENER, end=CLOSER, separator="\n")


plugin = MachinePlugin(
    Olmo3,
    special_tokens=(OPENER, CLOSER),
    tool_call_openers=(OPENER,),
    structural_tag=structural_tag,
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
