"""granite and granite-20b-fc: a JSON list of calls behind a marker; granite (reasoning): two phrases, or tags.

    answer    := [text] marker list [text]  |  list [text]  |  (call newline)* [text]
    marker    := "<|tool_call|>" | "<tool_call>"        Granite 3.0 | 3.1 to 3.3
    reasoning := "Here is my thought process:" text "Here is my response:" answer        Granite 3.2
               | "<think>" text "</think>" "<response>" answer "</response>"             Granite 3.3

docs/formats/granite.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    ListCallMachine,
    MachinePlugin,
    ModelFamily,
    PythonListMachine,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_list,
    call_tag,
    call_tags,
    offered_tools,
)

MARKERS = ("<|tool_call|>", "<tool_call>")
FUNCTION = "<function_call>"
THOUGHT, RESPONSE = "Here is my thought process:", "Here is my response:"
SHORT_THOUGHT, SHORT_RESPONSE = "Here's my thought process:", "Here's my response:"


@dataclass
class Granite(PythonListMachine):
    """A JSON list of calls behind <|tool_call|> or <tool_call>: Granite 3.0 to 3.3."""

    openers = MARKERS
    leads = True
    any_name = False


@dataclass
class Granite20bFunctions(ListCallMachine):
    """A JSON call behind each <function_call>: Granite 20B Function Calling."""

    openers = (FUNCTION,)


@dataclass
class GraniteReasoning(ThinkMachine):
    """Reasoning between two phrases, or in <think> tags, and an answer in <response> tags: Granite 3.2, 3.3."""

    opener = THOUGHT
    closer = RESPONSE
    spellings = ((SHORT_THOUGHT, SHORT_RESPONSE), ("<think>", "</think>"))
    phrases = (THOUGHT, RESPONSE, SHORT_THOUGHT, SHORT_RESPONSE)
    strip_blank = True
    answer_opener = "<response>"
    answer_closer = "</response>"


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A list behind the marker of 3.1 and later, which is text in their vocabularies."""
    return call_list(tools, tool_choice, begin=f"{MARKERS[1]}[", end="]")


def function_structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """A marker for each call."""
    tags = [
        call_tag(f'{FUNCTION} {{"name": {json.dumps(tool.name)}, "arguments": ', tool, "}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator=" ", triggers=(FUNCTION,))


plugin = MachinePlugin(
    Granite,
    special_tokens=MARKERS,
    tool_call_openers=MARKERS,
    structural_tag=structural_tag,
    families=[
        ModelFamily(
            ("Granite 3.0", "Granite 3.1", "Granite 3.2", "Granite 3.3"), template=("<|start_of_role|>", MARKERS[0])
        ),
    ],
)
functions = MachinePlugin(
    Granite20bFunctions,
    special_tokens=(FUNCTION,),
    tool_call_openers=(FUNCTION,),
    structural_tag=function_structural_tag,
    families=[
        ModelFamily(("Granite 20B Function Calling",), template=(FUNCTION,), types=("gpt_bigcode",)),
    ],
)
reasoning = MachinePlugin(
    GraniteReasoning,
    special_tokens=("<think>", "</think>", "<response>", "</response>"),
    families=[
        ModelFamily(("Granite 3.2",), template=(THOUGHT,)),
        ModelFamily(("Granite 3.3",), template=("<|start_of_role|>", "<think>", "<response>"), absent=(THOUGHT,)),
    ],
)
