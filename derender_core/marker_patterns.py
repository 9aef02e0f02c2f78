"""Patterns that find markers in text, and what may become one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = ["MarkerPatterns", "marker_patterns"]


class MarkerPatterns(NamedTuple):
    """Patterns for a set of markers.

    Args:
        begin: the first character of a marker: most deltas hold none, and need no closer look.
        whole: a marker; where two begin at one place, the longer.
        partial: a proper prefix of a marker at the end of the text.
        longest: the length of the longest proper prefix.
        nested: markers with which another one begins.
    """

    begin: re.Pattern[str]
    whole: re.Pattern[str]
    partial: re.Pattern[str]
    longest: int
    nested: frozenset[str]


@lru_cache(maxsize=256)
def marker_patterns(markers: tuple[str, ...]) -> MarkerPatterns:
    """The patterns for a set of markers, which must not be empty."""
    prefixes = {marker[:count] for marker in markers for count in range(1, len(marker))}
    return MarkerPatterns(
        re.compile(f"[{re.escape(''.join(sorted({marker[0] for marker in markers})))}]"),
        re.compile("|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True))),
        re.compile(f"(?:{'|'.join(map(re.escape, sorted(prefixes)))})\\Z" if prefixes else r"(?!)"),
        max(map(len, prefixes), default=0),
        frozenset(marker for marker in markers if marker in prefixes),
    )
