"""All that a parser is given: a delta, the prompt and the context of the request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

__all__ = ["TURN_MARKERS", "Delta", "ParseContext", "Prompt", "Special", "Tool", "ToolChoice"]

ToolChoice = Literal["none", "auto", "required"] | str
StreamToolCalls = Literal["whole", "arguments"]


class Special(NamedTuple):
    """Where a special token stands in a text: ``text[start:end]`` was made by ``token_id``."""

    start: int
    end: int
    token_id: int


class Delta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of a model's output.

    Args:
        text: decoded text; may be empty.
        specials: the special tokens in it that a parser asked for. Markers that ordinary text cannot produce are
            told apart from look-alikes by these.
        final: no more text follows.
        finish_reason: on the final delta, the engine's reason ("stop", "length", "abort", ...).
    """

    text: str
    specials: tuple[Special, ...] = ()
    final: bool = False
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the request offers.

    Args:
        name: its name.
        parameters: the JSON Schema of its arguments, if given.
        strict: whether the engine must hold the arguments to that schema.
    """

    name: str
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True)
class ParseContext:
    """What a parser may know about the request. The same for every delta of a stream.

    Args:
        tools: the functions offered. Empty: no tool parser runs.
        tool_choice: ``"none"``, ``"auto"``, ``"required"``, or ``"function:NAME"`` for a named one.
        template_kwargs: the request's ``chat_template_kwargs`` over the server's defaults.
        reasoning_open: whether the output begins inside reasoning; None when only the output itself can tell.
        tool_call_openers: the markers with which the configured tool parser's calls begin.
        has_token_ids: whether deltas say which special token made which stretch of text. Without, markers are known by
            their text alone.
        stream_tool_calls: ``"whole"`` holds each call until it is complete and valid; ``"arguments"`` sends its name
            and its arguments as they come. One-shot parsing is always ``"whole"``.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_open: bool | None = None
    tool_call_openers: tuple[str, ...] = ()
    has_token_ids: bool = False
    stream_tool_calls: StreamToolCalls = "whole"

    @cached_property
    def tool_names(self) -> frozenset[str]:
        """Names of the functions offered."""
        return frozenset(tool.name for tool in self.tools)

    def tool(self, name: str) -> Tool | None:
        """The offered function of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @property
    def forced_name(self) -> str | None:
        """The function that ``tool_choice`` names, if it names one."""
        return self.tool_choice.removeprefix("function:") if self.tool_choice.startswith("function:") else None


# Texts that begin a turn, or end the header of one, in the chat templates of the families served. What follows the
# last of them is the current turn.
TURN_MARKERS: tuple[str, ...] = (
    "<|im_start|>",
    "<|im_middle|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁end｜>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|observation|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|start_of_role|>",
    "<|turn>",
    "<start_of_turn>",
    "<|START_OF_TURN_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<seed:bos>",
    "]~b]",
    "<|BOT|>",
    "<|start|>",
    "[INST]",
    "[/INST]",
    "[/TOOL_RESULTS]",
)


ENDING = 4
"""Tokens that are read of a prompt at first: the header of the turn that the model is to write, in most chat templates.
Most prompts end alike, so what was found out about these is kept."""


@lru_cache
def _overlapping(markers: tuple[str, ...]) -> re.Pattern[str]:
    """All places where a marker stands, in its first group."""
    alternatives = "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
    return re.compile(f"(?=({alternatives or '(?!)'}))")


class Prompt:
    """The rendered prompt that the model was given, read from its end.

    Args:
        text: the prompt with its special tokens, or a function that decodes at least its last ``n`` tokens and says
            whether that is all: ``tail(n) -> (text, is_all)``.

    Attributes:
        read: how many of its last tokens were asked for.
    """

    def __init__(self, text: str | Callable[[int], tuple[str, bool]]) -> None:
        self._tail: Callable[[int], tuple[str, bool]] = (lambda _: (text, True)) if isinstance(text, str) else text
        self.read = 0

    @cached_property
    def current_turn(self) -> str:
        """The text behind the last turn marker; the whole prompt when there is none."""
        return self.turn_after(*TURN_MARKERS)

    def turn_after(self, *turn_markers: str) -> str:
        """The text behind the last of ``turn_markers``; the whole prompt when there is none."""
        tokens = ENDING
        while True:
            text, is_all = self._tail(tokens)
            self.read = max(self.read, tokens)
            ends = [found.end(1) for found in _overlapping(turn_markers).finditer(text)]
            if ends:
                return text[max(ends) :]
            if is_all:
                return text
            tokens *= 8

    def last_of(self, *markers: str) -> str | None:
        """The marker that stands last in the current turn, or None. Earlier turns and quoted history do not count."""
        turn = self.current_turn
        at, marker = max(((turn.rfind(marker), marker) for marker in markers), default=(-1, None))
        return marker if at >= 0 else None
