"""Parser sources: collections of parsers that cannot be declared one by one.

An entry point declares one parser under a name that is fixed when its distribution is built. A source is for parsers
that are only known once a program runs, such as those registered in another library. It is an object with two methods,
named by an entry point in ``derender.parser_sources``; the entry point's name is the prefix of its parsers' names:
``vllm:hermes`` is what the source ``vllm`` loads as ``hermes``.

A source is imported when one of its parsers is asked for, or when parsers are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from derender_core.errors import BrokenParserError
from derender_core.parser import Slot

__all__ = ["SOURCES", "ParserSource", "list_source"]

SOURCES = "derender.parser_sources"


class ParserSource(Protocol):
    """What an entry point in ``derender.parser_sources`` names."""

    def list_parsers(self, slot: Slot) -> Mapping[str, str]:
        """The names of the parsers of this slot, without the prefix, each with a description of one line.

        Should be quick: it must not load the parsers themselves.
        """
        ...

    def load_parser(self, slot: Slot, name: str) -> object:
        """The plugin object of a listed parser: what an entry point of a single parser would name.

        Whatever it raises is reported as the reason why the parser cannot be loaded.
        """
        ...


def list_source(source: ParserSource, prefix: str, slot: Slot) -> dict[str, str]:
    """What a source lists for a slot.

    Raises:
        BrokenParserError: it raises, or returns something else.
    """
    try:
        listed = dict(source.list_parsers(slot))
    except Exception as error:
        raise BrokenParserError(
            f"parser source {prefix!r} cannot list its {slot} parsers: {type(error).__name__}: {error}"
        ) from error
    if not all(isinstance(name, str) and isinstance(line, str) for name, line in listed.items()):
        raise BrokenParserError(f"parser source {prefix!r} must list names with descriptions, both texts")
    return listed
