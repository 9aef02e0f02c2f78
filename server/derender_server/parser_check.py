"""``derender parsers --check``: what is wrong with the installed parsers, found before a model's output finds it.

Every parser is loaded, asked everything that a server asks, and given a few outputs at several cuts. That shows whether
it fits the hooks, whatever its format; whether it is right is for its golden cases, which ``derender check`` runs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from importlib_metadata import entry_points

from derender_core.errors import DerenderError
from derender_core.events import merge_events
from derender_core.inputs import Delta, ParseContext, Prompt, Tool
from derender_core.model_facts import ModelFacts
from derender_core.parser_sources import SOURCES
from derender_core.registry import GROUPS, Parser, ParserInfo, list_parsers, load_parser
from derender_core.testing import (
    Cut,
    Failed,
    cut_char,
    cut_one,
    cut_random,
    event_faults,
    feed,
    marker_soup,
    plain_text,
)

__all__ = ["Finding", "check_parsers"]

SECONDS = 20.0
MODES: tuple[Literal["whole", "arguments"], ...] = ("whole", "arguments")
SOUPS = 6
MOST_NOTES = 2
LONGEST_BY_CHARACTER = 100  # parsers that replay take the square of this
PING = Tool("ping", {"type": "object", "properties": {"a": {"type": "string"}}}, strict=True)
CALL = '{"name": "ping", "arguments": {"a": "b"}}'


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one parser.

    Args:
        slot: "tool" or "reasoning"; "" for what is declared in a group that does not exist.
        name: the flag's value.
        distribution: where it comes from.
        version: of that distribution.
        problems: what keeps it from working; empty when it is fine.
        notes: what is good to know.
        hangs: its check was left behind in a thread, which may be in native code that does not bear Python's end.
    """

    slot: str
    name: str
    distribution: str
    version: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hangs: bool = False

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """A finding in the making."""

    problems: list[str]
    notes: list[str]


def check_parsers(names: Collection[str] = (), seconds: float = SECONDS) -> Iterator[Finding]:
    """Check installed parsers, one after the other.

    Args:
        names: those to check; all when empty.
        seconds: how long the check of one parser may take. One that hangs is left behind in a thread.
    """
    for info in list_parsers():
        if names and info.name not in names:
            continue
        report = Report([info.error] if info.error else [], list(_notes(info)))
        hangs = not info.error and _hangs(info, seconds, report)
        problems, notes = (tuple(dict.fromkeys(found)) for found in (report.problems, report.notes))
        yield Finding(info.slot, info.name, info.distribution, info.version, problems, notes, hangs)
    yield from (finding for finding in _lost() if not names or finding.name in names)


def _notes(info: ParserInfo) -> Iterator[str]:
    short = info.name.removeprefix(f"{info.distribution}:")
    if short != info.name:
        yield f"several distributions declare {info.slot} parser {short!r}; the flag needs {info.name!r}"


def _lost() -> Iterator[Finding]:
    """Entry points in groups that look like derender's and are none."""
    known = {*GROUPS.values(), SOURCES}
    for entry in entry_points():
        if entry.group.startswith("derender.") and entry.group not in known:
            found = (str(entry.dist.name), str(entry.dist.version)) if entry.dist else ("?", "?")
            problem = (
                f"it is declared in {entry.group!r}, which nobody reads; the groups are {', '.join(sorted(known))}"
            )
            yield Finding("", entry.name, *found, problems=(problem,))


def _hangs(info: ParserInfo, seconds: float, report: Report) -> bool:
    """Check one parser; whether that takes longer than so much time."""

    def run() -> None:
        try:
            _check(load_parser(info.slot, info.name), report)
        except DerenderError as error:
            report.problems.append(str(error))

    thread = threading.Thread(target=run, name="derender-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        report.problems.append(f"it took longer than {seconds:g} s: it hangs, or is far too slow")
        return True
    return False


def _check(parser: Parser, report: Report) -> None:
    """Ask everything, then parse.

    Raises:
        ParserError: a question could not be answered, so that there is no use in parsing.
    """
    markers = _ask(parser, report)
    contexts = [ParseContext(tools=(PING,))]
    if parser.slot == "reasoning":
        contexts = [replace(contexts[0], reasoning_open=is_open) for is_open in (None, True, False)]
    prose = plain_text(0, words=12)
    outputs = [prose, "", f"{''.join(markers)}{CALL}{''.join(reversed(markers))}"]
    outputs += [marker_soup(seed, markers, [prose]) if markers else marker_soup(seed) for seed in range(SOUPS)]
    for context in contexts:
        for text in outputs:
            try:
                note = _parse(parser, Delta(text, final=True, finish_reason="stop"), context)
            except (Failed, DerenderError) as error:
                report.problems.append(f"on the output {text[:80]!r}: {str(error).splitlines()[0]}")
                return  # one is enough to go and look
            if note and len(report.notes) < MOST_NOTES:
                report.notes.append(f"on the output {text[:80]!r}: {note}")


def _ask(parser: Parser, report: Report) -> tuple[str, ...]:
    """Ask what a server asks besides parsing. Returns the markers that the parser names."""
    context = ParseContext(tools=(PING,))
    markers = (*parser.special_tokens(context), *parser.tool_call_openers(context))
    if any(not marker for marker in markers):
        report.problems.append("it names an empty marker")
    for prompt in (None, Prompt(""), Prompt(f"<|im_start|>assistant\n{''.join(markers)}")):
        parser.prompt_opens_reasoning(prompt, context)
    if reason := parser.recognizes(ModelFacts()):
        report.problems.append(f"it takes a model without template, tokens and type for one of its own: {reason}")
    for choice in ("none", "auto", "required", "function:ping"):
        tag = parser.structural_tag((PING,), choice)
        try:
            json.dumps(tag)
        except (TypeError, ValueError) as error:
            report.problems.append(f"its structural tag for tool_choice {choice!r} is no JSON: {error}")
    return tuple(dict.fromkeys(filter(None, markers)))


def _parse(parser: Parser, output: Delta, context: ParseContext) -> str | None:
    """Parse an output at once and in pieces, with calls whole and as they come.

    Returns:
        A note when the ways of parsing disagree. By the laws they must not, but the server can work with it.

    Raises:
        Failed: a step broke the contract.
        ParserError: the parser raised.
    """
    once = merge_events(parser.extract(output, context))
    faults = event_faults(once, complete=True)
    if faults:
        raise Failed(f"parsed at once, {faults[0]}")
    cuts: list[Cut] = [cut_one(output), cut_random(output, 1)]
    if len(output.text) <= LONGEST_BY_CHARACTER:
        cuts.append(cut_char(output))
    note: str | None = None
    for mode in MODES:
        streamed = replace(context, stream_tool_calls=mode)
        for cut in cuts:
            events = feed(parser, cut, streamed).events
            faults = event_faults(events, complete=mode == "whole")
            if faults:
                raise Failed(f"cut into {len(cut.deltas)} deltas, {faults[0]}")
            if mode == "whole" and events != once and note is None:
                note = f"cut into {len(cut.deltas)} deltas it gives other events than at once"
    return note
