"""gigachat3: the words ``function call`` and a JSON object.

    output := [text "<|message_sep|>"] (call)*        call := "function call" ["<|role_sep|>"] blank object

Written by GigaChat 3. docs/formats/gigachat3.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    ListCallMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

WORDS, ROLE = "function call", "<|role_sep|>"
MESSAGE = "<|message_sep|>"


@dataclass
class GigaChat3(ListCallMachine):
    """A JSON call behind the words function call: GigaChat 3."""

    openers = (WORDS + ROLE,)
    words = (WORDS,)
    noise = (MESSAGE, ROLE)

    def read_head(self) -> NeedData | None:
        """The token that ends the name of a role may be hidden."""
        if self.skip_blank() == "<" and ROLE not in self.peek(self.ahead):
            stands = self.stands(ROLE)
            if stands is None:
                return NEED_DATA
            self.ahead += len(ROLE) if stands else 0
        return super().read_head()


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Each call is a message of its own."""
    tags = [
        call_tag(f'{WORDS}{ROLE}\n{{"name": {json.dumps(tool.name)}, "arguments": ', tool, "}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator=f"{MESSAGE}\n\n", triggers=(WORDS + ROLE,))


plugin = MachinePlugin(
    GigaChat3,
    special_tokens=(ROLE, MESSAGE),
    tool_call_openers=(WORDS + ROLE, WORDS + "{"),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("GigaChat 3",), template=(WORDS, ROLE, MESSAGE)),
    ],
)
