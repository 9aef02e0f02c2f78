"""Counts reasoning tokens by ids, wherever the deltas are cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from derender_core.hookspecs import Span

__all__ = ["ReasoningTokens"]


class ReasoningTokens:
    """Tokens whose text begins inside reasoning.

    A parser understands characters, some of them later than they came; a token waits here until its first character is
    understood. One without text of its own (a part of a character, a dropped special token) goes with what follows it.

    Args:
        total: reasoning tokens counted so far.
        pending: characters of each token that is not fully understood yet; of the first, what is left of it when its
            beginning was understood already (then negative, so that it is not counted twice).
    """

    def __init__(self, total: int, pending: Sequence[int]) -> None:
        self.total = total
        self._tokens = list(pending)

    @property
    def pending(self) -> list[int]:
        """The part of the state that grows only with what the parser holds back."""
        return self._tokens

    def add(self, lengths: Sequence[int]) -> None:
        """Tokens arrived; how many characters each gave."""
        self._tokens = self._tokens + list(lengths)

    def count(self, spans: Sequence[Span]) -> None:
        """Stretches of text were understood."""
        tokens = self._tokens
        ends = list(accumulate([abs(tokens[0]), *tokens[1:]])) if tokens else []  # only the first may be negative
        at = position = 0
        for inside, characters in spans:
            if not characters or at == len(tokens):
                continue
            position += characters
            reached = bisect_left(ends, position, at)
            in_part = reached < len(ends) and ends[reached] > position  # the span ends within this token
            done = len(ends) if reached == len(ends) else reached if in_part else reached + 1
            if inside:
                begun = done + in_part
                self.total += begun - at - (begun > at and tokens[at] < 0)
            if in_part:
                tokens[reached] = position - ends[reached]
            at = done
        self._tokens = tokens[at:]
