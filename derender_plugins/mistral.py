"""mistral: calls behind ``[TOOL_CALLS]``, in a list or each by itself; reasoning in ``[THINK]``.

    list := "[TOOL_CALLS]" blank ( "[" object ("," object)* "]" | object )        v3, v7
    call := "[TOOL_CALLS]" NAME ["[CALL_ID]" ID] ["[ARGS]"] object                v11 and later, one behind another

Written by Mistral, Mixtral, Codestral, Devstral, Magistral and Ministral. The markers are control tokens: where token
ids are known, text that looks like one is text. docs/formats/mistral.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    ListCallMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

CALLS, ARGS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
THINK, THINK_END = "[THINK]", "[/THINK]"
NAME_ENDS = ("", " ", "\t", "\r", "\n", "[", "{")
_NINE = re.compile(r"[A-Za-z0-9]{9}")


@dataclass
class Mistral(ListCallMachine):
    """Calls behind [TOOL_CALLS], in a list or by name: Mistral and its relatives, all tokenizer versions.

    Args:
        call_id: the id that the model gave the call.
    """

    call_id: str = ""

    openers = (CALLS,)
    trim = False
    control_markers = True

    def forget_region(self) -> None:
        """As ``ListCallMachine.forget_region``, and the call's id."""
        super().forget_region()
        self.call_id = ""

    def start_call(self, name: str, call_id: str | None = None) -> None:
        """An id of nine letters and digits is what the model expects back."""
        own = self.call_id if _NINE.fullmatch(self.call_id) else None
        super().start_call(name, call_id or own)

    # -- a call by name ----------------------------------------------------------------------------------------------

    def other_form(self, char: str) -> None:  # noqa: ARG002
        """No list and no object: a name."""
        self.phase = "name"

    def read_name(self) -> NeedData | None:
        """The name, up to a marker, a brace or white space."""
        while (char := self.look()) not in NAME_ENDS:
            self.name += char
            self.ahead += 1
        if not char:
            return self.wait()
        self.phase = "after_name"
        return None

    def read_after_name(self) -> NeedData | None:
        """A marker, or the arguments."""
        return self._expect((ARGS, CALL_ID))

    def read_id(self) -> NeedData | None:
        """The call's id, up to the marker of the arguments."""
        self.ahead, marker = self.find((ARGS, CALLS, CALL_ID), self.ahead)
        if marker is None and self.ahead - self.body < 100:
            return self.wait()
        self.call_id = self.peek(self.ahead - self.body, self.body).strip()
        return self._expect((ARGS,))

    def read_before_arguments(self) -> NeedData | None:
        """White space in front of the arguments."""
        return self._expect(())

    def _expect(self, markers: tuple[str, ...]) -> NeedData | None:
        """One of these markers, or the brace of the arguments."""
        char = self.skip_blank()
        marker = self.which(markers) if char else None
        if marker is None:
            return self.wait()
        if marker:
            self.ahead += len(marker)
            self.body, self.phase = self.ahead, "id" if marker == CALL_ID else "before_arguments"
        elif char == "{" and self.name and self.phase != "id":
            self.begin_value()
            self.body, self.phase = self.ahead, "arguments"
        else:
            self.reject()
        return None

    def read_arguments(self) -> NeedData | None:
        """The arguments. The end of the object is the end of the call."""
        progress = self.walk_arguments()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            self.reject()
            return None
        if not self.end_arguments():
            self.reject()
            return None
        self.end_region()
        self.begin_region()
        self.phase = "content"
        return None

    def wait(self) -> NeedData | None:
        """As ``ListCallMachine.wait``; a name without arguments at a normal end is text."""
        nameless = self.phase in ("name", "after_name", "id", "before_arguments")
        if self.final and self.ended_normally and nameless:
            self.ahead = self.waiting
            self.reject()
            return None
        return super().wait()


@dataclass
class MistralReasoning(ThinkMachine):
    """Reasoning in [THINK], or in <think> as text: Magistral and later Mistral models."""

    opener = THINK
    closer = THINK_END
    spellings = (("<think>", "</think>"),)
    text_markers = ("<think>", "</think>")
    control_markers = True
    reopens = True
    strip_newlines = False


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Calls by name, as the v11 and later templates write them."""
    tags = [call_tag(f"{CALLS}{tool.name}{ARGS}", tool, "") for tool in offered_tools(tools, tool_choice)]
    return call_tags(tags, tool_choice, separator="", triggers=(CALLS,))


FAMILIES = ("Mistral", "Mixtral", "Codestral", "Devstral", "Magistral", "Ministral")
THINKING_FAMILIES = ("Magistral", "Ministral")

plugin = MachinePlugin(
    Mistral,
    special_tokens=(CALLS, ARGS, CALL_ID),
    tool_call_openers=(CALLS,),
    structural_tag=structural_tag,
    call_id_length=9,  # the chat templates, and mistral-common, refuse any other id when the call comes back
    families=[
        ModelFamily(FAMILIES, template=(CALLS,)),
        ModelFamily(FAMILIES, tokens=(CALLS,), untemplated=True),
    ],
)
reasoning = MachinePlugin(
    MistralReasoning,
    special_tokens=(THINK, THINK_END),
    families=[
        ModelFamily(THINKING_FAMILIES, template=(THINK,)),
        ModelFamily(THINKING_FAMILIES, tokens=(THINK,), untemplated=True),
    ],
)
