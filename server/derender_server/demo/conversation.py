"""What the scripted engine understands of a prompt: the reverse of the demo's chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Conversation", "Turn", "read_conversation"]

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
TOOL_RESPONSE = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
# What may not be repeated from a prompt: written again, it would become the marker itself.
MARKERS = re.compile(r"<\|[^|<>]*\|>|</?(?:think|tool_call|tool_response)>")


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished turn of a conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt taken apart.

    Args:
        turns: the finished turns.
        opening: what the prompt has written of the answer already; None when the prompt is plain text.
        tools: the functions that its tools section lists.
        question: the last thing that the user said, or the whole of a plain prompt; without markers.
        results: what the tools answered, when the last turn is made of tool results; without markers.
    """

    turns: tuple[Turn, ...]
    opening: str | None
    tools: tuple[Mapping[str, Any], ...]
    question: str
    results: tuple[str, ...]

    @property
    def thinking(self) -> bool:
        """Whether the answer begins with thoughts: nothing is written yet, or an open think block."""
        return self.opening is not None and (not self.opening.strip() or self.inside_thoughts)

    @property
    def inside_thoughts(self) -> bool:
        """Whether the prompt has opened a think block and not closed it."""
        opening = self.opening or ""
        return opening.rfind("<think>") > opening.rfind("</think>")

    @property
    def continues(self) -> bool:
        """Whether the prompt ends in the middle of an answer."""
        return bool((self.opening or "").rpartition("</think>")[2].strip()) and not self.inside_thoughts


def read_conversation(prompt: str) -> Conversation:
    """Take a prompt apart.

    Args:
        prompt: the whole prompt, special tokens written out.
    """
    head, *parts = prompt.split(TURN_START)
    if not parts:
        return Conversation((), None, (), _unmarked(head), ())
    opening = ""
    if TURN_END not in parts[-1]:
        opening = parts.pop().partition("\n")[2]
    turns = tuple(_turn(part) for part in parts)
    questions = [turn.text for turn in turns if turn.role == "user" and not TOOL_RESPONSE.search(turn.text)]
    last = turns[-1].text if turns and turns[-1].role in ("user", "tool") else ""
    return Conversation(
        turns=turns,
        opening=opening,
        tools=_listed_tools(next((turn.text for turn in turns if turn.role == "system"), "")),
        question=_unmarked(questions[-1] if questions else ""),
        results=tuple(_unmarked(result) for result in TOOL_RESPONSE.findall(last)),
    )


def _turn(part: str) -> Turn:
    role, _, text = part.partition("\n")
    return Turn(role, text.partition(TURN_END)[0])


def _unmarked(text: str) -> str:
    return MARKERS.sub("", text).strip()


def _listed_tools(system: str) -> tuple[Mapping[str, Any], ...]:
    section = TOOLS.search(system)
    tools = []
    for line in section[1].splitlines() if section else ():
        try:
            tool = json.loads(line)
        except ValueError:
            continue  # another template's section, or one that the user wrote: as good as not there
        if isinstance(tool, dict):
            tools.append(tool)
    return tuple(tools)
