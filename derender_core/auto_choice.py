"""Choosing the parser of a model: ``auto`` in place of a parser's name."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from derender_core.errors import ParserError, ParserLoadError, UnsureParserError
from derender_core.model_facts import ModelFacts
from derender_core.parser import Parser, Slot
from derender_core.registry import installed_names, load_parser

__all__ = ["AUTO", "Choice", "choose_parser", "recognizing_parsers"]

log = logging.getLogger("derender")

AUTO = "auto"
FLAGS = {"tool": "--tool-call-parser", "reasoning": "--reasoning-parser"}


class Choice(NamedTuple):
    """A parser for a model.

    Args:
        parser: the parser, under the first of its names.
        reason: what it knows the model by.
    """

    parser: Parser
    reason: str


def recognizing_parsers(slot: Slot, model: ModelFacts) -> list[Choice]:
    """The installed parsers that recognise a model as theirs.

    A parser with several names counts once. Parsers of sources (``source:name``) are not asked. One that cannot be
    loaded, or fails, is passed over with a warning in the log.
    """
    return list(_recognizing(slot, model))


def _recognizing(slot: Slot, model: ModelFacts) -> Iterator[Choice]:
    seen: set[int] = set()
    for name in installed_names(slot):
        try:
            parser = load_parser(slot, name)
            if id(parser.plugin) in seen:
                continue
            seen.add(id(parser.plugin))
            reason = parser.recognizes(model)
        except (ParserLoadError, ParserError) as error:
            log.warning("%s parser %r cannot say whether the model is one of its own: %s", slot, name, error)
            continue
        if reason:
            yield Choice(parser, reason)


def choose_parser(slot: Slot, model: ModelFacts) -> Choice:
    """The one installed parser that recognises a model as its own.

    Args:
        slot: "tool" or "reasoning".
        model: what its files say.

    Raises:
        UnsureParserError: none does, or several do; names them and why.
    """
    found = recognizing_parsers(slot, model)
    if len(found) == 1:
        return found[0]
    flag = FLAGS[slot]
    if found:
        candidates = "; ".join(f"{choice.parser.name} ({choice.reason})" for choice in found)
        raise UnsureParserError(
            f"{flag} auto is not sure, as several parsers take the model for one of their own: {candidates}. "
            f"Choose one of them with {flag}."
        )
    kinds = ", ".join(model.types) or "unknown"
    known = f"model_type {kinds}, " + ("with a chat template" if model.template else "without a chat template")
    what = "makes no tool calls" if slot == "tool" else "does not reason"
    raise UnsureParserError(
        f"{flag} auto is not sure: no {slot} parser takes the model for one of its own ({known}). Choose one with "
        f"{flag}, or leave the flag out if the model {what}. Installed: {', '.join(sorted(installed_names(slot)))}."
    )
