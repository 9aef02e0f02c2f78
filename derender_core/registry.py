"""Finds parsers through entry points and loads the one that was asked for.

A slot (tool or reasoning) has its own entry-point group, and the entry point's name is the parser's name. Listing reads
only metadata; a parser that nobody asked for is never imported.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pluggy
from importlib_metadata import EntryPoint, entry_points

from derender_core.defaults import Defaults
from derender_core.errors import AmbiguousParserError, BrokenParserError, ParserError, UnknownParserError
from derender_core.events import Event, Reasoning, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from derender_core.hookspecs import PROJECT, HookSpecs, State, Step
from derender_core.inputs import Delta, ParseContext, Prompt, Tool, ToolChoice

__all__ = ["GROUPS", "Parser", "ParserInfo", "Slot", "list_parsers", "load_parser", "make_parser"]

Slot = Literal["tool", "reasoning"]

GROUPS: Mapping[Slot, str] = {"tool": "derender.tool_parsers", "reasoning": "derender.reasoning_parsers"}

_EVENTS = frozenset({Text, Reasoning, ToolCallStart, ToolCallArguments, ToolCallEnd})


@dataclass(frozen=True, slots=True)
class ParserInfo:
    """One installed parser.

    Args:
        slot: "tool" or "reasoning".
        name: the flag's value.
        distribution: the distribution that declares it.
        version: of that distribution.
        description: one line.
        error: why it cannot be loaded, or None.
    """

    slot: Slot
    name: str
    distribution: str
    version: str
    description: str
    error: str | None = None


class Parser:
    """A loaded parser: its hooks as methods, with the hook contract checked.

    Raises:
        ParserError: from every method, when the parser raises or returns what the hook does not allow.
    """

    def __init__(self, slot: Slot, name: str, plugin: object, distribution: str = "", version: str = "") -> None:
        self.slot, self.name, self.plugin = slot, name, plugin
        self.distribution, self.version = distribution, version
        self.description: str = getattr(plugin, "description", None) or _first_line(plugin)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(HookSpecs)
        try:
            manager.register(plugin, name=f"{distribution}:{name}")
            manager.register(Defaults(manager.hook.derender_parse_delta))
            manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            raise BrokenParserError(f"{self} does not fit the hooks: {error}") from error
        if not manager.hook.derender_parse_delta.get_hookimpls():
            raise BrokenParserError(f"{self} does not implement derender_parse_delta")
        self._hook = manager.hook
        self._parse_delta = manager.hook.derender_parse_delta
        self.extracts_itself: bool = len(manager.hook.derender_extract.get_hookimpls()) > 1

    def __str__(self) -> str:
        return f"{self.slot} parser {self.name!r}" + (f" of {self.distribution}" if self.distribution else "")

    def __repr__(self) -> str:
        return f"<{self}>"

    def parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Parse the next delta. See ``derender_parse_delta``."""
        try:
            step = self._parse_delta(state=state, delta=delta, context=context)
        except Exception as error:
            raise ParserError(f"{self} raised {type(error).__name__}: {error}") from error
        if step.__class__ is not Step:
            raise ParserError(f"{self} returned {type(step).__name__} from derender_parse_delta, not a Step")
        return self._checked(step)

    def _checked(self, step: Step) -> Step:
        for event in step.events:
            if event.__class__ not in _EVENTS:
                raise ParserError(f"{self} returned {type(event).__name__} among its events")
        return step

    def extract(self, output: Delta, context: ParseContext) -> list[Event]:
        """Parse a whole output. See ``derender_extract``."""
        events = self._call("derender_extract", output=output, context=context)
        if not isinstance(events, Sequence) or any(event.__class__ not in _EVENTS for event in events):
            raise ParserError(f"{self} returned from derender_extract what is no list of events")
        return list(events)

    def prompt_opens_reasoning(self, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """Whether the output begins inside reasoning. See ``derender_prompt_opens_reasoning``."""
        answer: bool | None = self._call("derender_prompt_opens_reasoning", prompt=prompt, context=context)
        return answer

    def special_tokens(self, context: ParseContext) -> tuple[str, ...]:
        """See ``derender_special_tokens``."""
        return tuple(self._call("derender_special_tokens", context=context) or ())

    def tool_call_openers(self, context: ParseContext) -> tuple[str, ...]:
        """See ``derender_tool_call_openers``."""
        return tuple(self._call("derender_tool_call_openers", context=context) or ())

    def structural_tag(self, tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
        """See ``derender_structural_tag``."""
        tag: Mapping[str, Any] | None = self._call("derender_structural_tag", tools=tools, tool_choice=tool_choice)
        return tag

    def check_state(self, state: State) -> str | None:
        """See ``derender_check_state``."""
        wrong: str | None = self._call("derender_check_state", state=state)
        return wrong

    def _call(self, hook: str, **arguments: Any) -> Any:
        try:
            return getattr(self._hook, hook)(**arguments)
        except Exception as error:
            raise ParserError(f"{self} raised {type(error).__name__} in {hook}: {error}") from error


def make_parser(slot: Slot, name: str, plugin: object) -> Parser:
    """A parser from a plugin object, without entry points: for tests and for notebooks.

    Raises:
        BrokenParserError: the plugin does not fit the hooks.
    """
    return Parser(slot, name, plugin)


@cache
def load_parser(slot: Slot, name: str) -> Parser:
    """Load an installed parser.

    Args:
        slot: "tool" or "reasoning".
        name: the entry point's name, or ``distribution:name`` where several distributions declare the name.

    Raises:
        UnknownParserError: nobody declares it; lists what is installed and the nearest name.
        AmbiguousParserError: several distributions declare it; names them.
        BrokenParserError: it does not import or does not fit the hooks.
    """
    found = _find(slot, name)
    entry = found[0]
    try:
        plugin = entry.load()
    except Exception as error:
        raise BrokenParserError(
            f"{slot} parser {name!r} of {_distribution(entry)} does not import: {type(error).__name__}: {error}"
        ) from error
    return Parser(slot, entry.name, plugin, _distribution(entry), _version(entry))


def _find(slot: Slot, name: str) -> list[EntryPoint]:
    distribution, _, short = name.rpartition(":")
    entries = _entries(slot)
    found = [entry for entry in entries if entry.name == name]
    if not found and distribution:
        found = [entry for entry in entries if entry.name == short and _distribution(entry) == distribution]
    if not found:
        names = sorted({entry.name for entry in entries})
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownParserError(f"No {slot} parser {name!r}.{hint} Installed: {', '.join(names) or 'none'}.")
    if len(found) > 1:
        choices = " or ".join(repr(f"{_distribution(entry)}:{entry.name}") for entry in found)
        raise AmbiguousParserError(f"Several distributions declare {slot} parser {name!r}; say {choices}.")
    return found


def list_parsers() -> list[ParserInfo]:
    """Every installed parser of both slots, by slot and name. One that cannot be loaded has its ``error`` set."""
    return [_info(slot, entry) for slot in GROUPS for entry in _entries(slot)]


def _info(slot: Slot, entry: EntryPoint) -> ParserInfo:
    distribution, version = _distribution(entry), _version(entry)
    names = [other.name for other in _entries(slot)]
    name = f"{distribution}:{entry.name}" if names.count(entry.name) > 1 else entry.name
    try:
        parser = load_parser(slot, name)
    except (BrokenParserError, AmbiguousParserError) as error:
        return ParserInfo(slot, name, distribution, version, "", str(error))
    return ParserInfo(slot, name, distribution, version, parser.description)


def _entries(slot: Slot) -> list[EntryPoint]:
    unique = {(entry.name, _distribution(entry)): entry for entry in entry_points(group=GROUPS[slot])}
    return [unique[key] for key in sorted(unique)]


def _distribution(entry: EntryPoint) -> str:
    return str(entry.dist.name) if entry.dist else "?"


def _version(entry: EntryPoint) -> str:
    return str(entry.dist.version) if entry.dist else "?"


def _first_line(plugin: object) -> str:
    return (getattr(plugin, "__doc__", None) or "").strip().split("\n", 1)[0]
