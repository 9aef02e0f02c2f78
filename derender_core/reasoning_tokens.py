"""Counts reasoning tokens by ids, wherever the deltas are cut."""

from __future__ import annotations

from collections.abc import Sequence

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
        tokens, at = self._tokens, 0
        for inside, characters in spans:
            while characters and at < len(tokens):
                length = tokens[at]
                if length >= 0:
                    self.total += inside
                size = abs(length)
                if size > characters:
                    tokens[at] = characters - size
                    break
                characters -= size
                at += 1
        self._tokens = tokens[at:]
