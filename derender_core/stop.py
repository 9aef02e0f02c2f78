"""``StopStrings``: cuts a text at the first stop string, holding back what may be the beginning of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["StopMatch", "StopStrings"]


class StopMatch(NamedTuple):
    """What a piece of text gave.

    Args:
        text: the text that is certain, cut at the stop string if one was found.
        held: the text that may be the beginning of a stop string; never as long as the longest of them.
        found: the stop string, or None.
    """

    text: str
    held: str
    found: str | None


@dataclass(frozen=True)
class StopStrings:
    """The stop strings of a request.

    Args:
        strings: non-empty stop strings. The one that ends first in the text counts; of those that end together, the
            longest.
        include: whether the stop string itself stays in the text.
        min_tokens: a stop string counts only when it ends behind this many output tokens.
    """

    strings: tuple[str, ...]
    include: bool = False
    min_tokens: int = 0

    def push(self, held: str, text: str, *, free: int = 0, final: bool = False) -> StopMatch:
        """Look for a stop string in ``held + text``.

        Args:
            held: what the last call held back.
            text: the text that follows it.
            free: how many characters of ``held + text`` belong to the first ``min_tokens`` tokens: a stop string that
                ends among them does not count.
            final: nothing follows, so nothing is held back.
        """
        whole = held + text
        end, found = self._first(whole, max(free, len(held)))
        if found is not None:
            return StopMatch(whole[: end if self.include else end - len(found)], "", found)
        kept = 0 if final else self._beginning(whole)
        return StopMatch(whole[: len(whole) - kept], whole[len(whole) - kept :], None)

    def _first(self, text: str, after: int) -> tuple[int, str | None]:
        """Where the first stop string that ends behind ``after`` ends."""
        best, found = len(text) + 1, None
        for string in self.strings:
            at = text.find(string, max(0, after + 1 - len(string)))
            end = at + len(string)
            if at >= 0 and (end < best or (end == best and found is not None and len(string) > len(found))):
                best, found = end, string
        return best, found

    def _beginning(self, text: str) -> int:
        """Length of the longest end of ``text`` that begins a stop string."""
        longest = max(map(len, self.strings), default=1) - 1
        return next(
            (
                count
                for count in range(min(longest, len(text)), 0, -1)
                if any(string.startswith(text[-count:]) for string in self.strings)
            ),
            0,
        )
