"""Finds parsers through entry points and loads the one that was asked for.

A slot (tool or reasoning) has its own entry-point group, and the entry point's name is the parser's name. A third group
declares sources of parsers, see ``derender_core.parser_sources``. A parser that nobody asked for is never imported, so
a broken one breaks nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import cast

from importlib_metadata import Distribution, EntryPoint, entry_points

from derender_core.errors import AmbiguousParserError, BrokenParserError, ParserLoadError, UnknownParserError
from derender_core.nearest import did_you_mean
from derender_core.parser import Parser, Slot, make_parser
from derender_core.parser_sources import SOURCES, ParserSource, list_source

__all__ = ["GROUPS", "Parser", "ParserInfo", "Slot", "installed_names", "list_parsers", "load_parser", "make_parser"]

GROUPS: Mapping[Slot, str] = {"tool": "derender.tool_parsers", "reasoning": "derender.reasoning_parsers"}


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


@cache
def load_parser(slot: Slot, name: str) -> Parser:
    """Load an installed parser.

    Args:
        slot: "tool" or "reasoning".
        name: the entry point's name; ``distribution:name`` where several distributions declare the name; or
            ``source:name`` for a parser of a source.

    Raises:
        UnknownParserError: nobody declares it; lists what is installed and the nearest name.
        AmbiguousParserError: several distributions declare it; names them.
        BrokenParserError: it does not import or does not fit the hooks.
    """
    entry = _find(slot, name)
    if entry is not None:
        plugin = _import(entry, f"{slot} parser {name!r} of {_distribution(entry)}")
        return Parser(slot, entry.name, plugin, _distribution(entry), _version(entry))
    prefix, _, short = name.partition(":")
    entry = _source_entry(prefix) if short else None
    if entry is None:
        raise _unknown(slot, name)
    return _load_from_source(slot, name, short, entry)


def _find(slot: Slot, name: str) -> EntryPoint | None:
    """The entry point of a single parser, or None."""
    distribution, _, short = name.rpartition(":")
    entries = _entries(GROUPS[slot])
    found = [entry for entry in entries if entry.name == name]
    if not found and distribution:
        found = [entry for entry in entries if entry.name == short and _distribution(entry) == distribution]
    return _only(found, f"{slot} parser", name)


def _source_entry(prefix: str) -> EntryPoint | None:
    return _only([entry for entry in _entries(SOURCES) if entry.name == prefix], "parser source", prefix)


def _only(found: list[EntryPoint], what: str, name: str) -> EntryPoint | None:
    if len(found) > 1:
        # A source has no other name to be chosen by.
        advice = "uninstall all but one of " if what == "parser source" else "say "
        choices = " or ".join(repr(f"{_distribution(entry)}:{entry.name}") for entry in found)
        raise AmbiguousParserError(f"Several distributions declare {what} {name!r}; {advice}{choices}.")
    return found[0] if found else None


def _unknown(slot: Slot, name: str) -> UnknownParserError:
    names = sorted({entry.name for entry in _entries(GROUPS[slot])})
    sources = "".join(f", {entry.name}:NAME" for entry in _entries(SOURCES))
    other = next((one for one in GROUPS if one != slot), slot)
    elsewhere = ""
    if any(entry.name == name for entry in _entries(GROUPS[other])):
        elsewhere = f" There is a {other} parser of that name."
    installed = ", ".join(names) or "none"
    short = name.rpartition(":")[2]
    near = did_you_mean(name, names) or did_you_mean(short, names)
    return UnknownParserError(f"No {slot} parser {name!r}.{near}{elsewhere} Installed: {installed}{sources}.")


def _load_from_source(slot: Slot, name: str, short: str, entry: EntryPoint) -> Parser:
    source: ParserSource = _import(entry, f"parser source {entry.name!r} of {_distribution(entry)}")
    names = list_source(source, entry.name, slot)
    if short not in names:
        full = [f"{entry.name}:{one}" for one in sorted(names)]
        near = did_you_mean(name, full)
        raise UnknownParserError(f"No {slot} parser {name!r}.{near} {entry.name} has: {', '.join(full) or 'none'}.")
    try:
        plugin = source.load_parser(slot, short)
    except Exception as error:
        raise BrokenParserError(
            f"{slot} parser {name!r} of {_distribution(entry)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return Parser(slot, name, plugin, _distribution(entry), _version(entry))


def _import(entry: EntryPoint, what: str) -> ParserSource:
    """What an entry point names. The type is right for sources; a parser's plugin is only ever an ``object``."""
    try:
        found: ParserSource = entry.load()
    except (Exception, SystemExit) as error:  # a script without a guard exits when it is imported
        raise BrokenParserError(f"{what} does not import: {type(error).__name__}: {error}") from error
    return found


def list_parsers() -> list[ParserInfo]:
    """Every installed parser of both slots, by slot and name, those of sources last.

    One that cannot be loaded has its ``error`` set. The parsers of sources are not loaded; a source that cannot be
    imported is listed under its prefix with the error.
    """
    return [info for slot in GROUPS for info in (*_list_entries(slot), *_list_sources(slot))]


def installed_names(slot: Slot) -> list[str]:
    """The names of all parsers of a slot but those of sources. Of several for one parser, its module's comes first."""
    entries = _entries(GROUPS[slot])
    names = [entry.name for entry in entries]
    entries.sort(key=lambda entry: (not entry.module.rpartition(".")[2].startswith(entry.name), entry.name))
    return [f"{_distribution(entry)}:{entry.name}" if names.count(entry.name) > 1 else entry.name for entry in entries]


def _list_entries(slot: Slot) -> Iterator[ParserInfo]:
    entries = _entries(GROUPS[slot])
    names = [entry.name for entry in entries]
    for entry in entries:
        distribution, version = _distribution(entry), _version(entry)
        name = f"{distribution}:{entry.name}" if names.count(entry.name) > 1 else entry.name
        try:
            yield ParserInfo(slot, name, distribution, version, load_parser(slot, name).description)
        except ParserLoadError as error:
            yield ParserInfo(slot, name, distribution, version, "", str(error))


def _list_sources(slot: Slot) -> Iterator[ParserInfo]:
    for entry in _entries(SOURCES):
        distribution, version = _distribution(entry), _version(entry)
        try:
            _source_entry(entry.name)
            source = _import(entry, f"parser source {entry.name!r} of {distribution}")
            listed = list_source(source, entry.name, slot)
        except ParserLoadError as error:
            yield ParserInfo(slot, f"{entry.name}:*", distribution, version, "", str(error))
            continue
        for short, description in sorted(listed.items()):
            yield ParserInfo(slot, f"{entry.name}:{short}", distribution, version, description)


def _entries(group: str) -> list[EntryPoint]:
    unique = {(entry.name, _distribution(entry)): entry for entry in entry_points(group=group)}
    return [unique[key] for key in sorted(unique)]


def _distribution(entry: EntryPoint) -> str:
    return _name(cast(Distribution, entry.dist)) if entry.dist else "?"


@lru_cache(maxsize=64)
def _name(distribution: Distribution) -> str:
    # Parsed from its metadata each time, and dozens of entry points have one in common.
    return str(distribution.name)


def _version(entry: EntryPoint) -> str:
    return str(entry.dist.version) if entry.dist else "?"
