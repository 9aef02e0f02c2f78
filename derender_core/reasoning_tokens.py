"""Counts reasoning tokens by ids, wherever the deltas are cut."""

from __future__ import annotations

from collections.abc import Sequence

from derender_core.hookspecs import Span

__all__ = ["ReasoningTokens"]

FEW = 8
"""Tokens that are summed up one by one."""


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
        self._tokens = [*self._tokens, *lengths]

    def count(self, spans: Sequence[Span]) -> None:
        """Stretches of text were understood."""
        tokens, left = self._tokens, sum([characters for _, characters in spans])
        if not left or not tokens:
            return
        at = 0
        begun = tokens[0] < 0  # whether the beginning of the token at `at` was understood before
        if begun:
            tokens[0] = -tokens[0]
        index, count = 0, len(spans)
        while left and at < len(tokens):
            inside, characters = spans[index]
            index += 1
            while index < count and spans[index][0] is inside:
                characters += spans[index][1]
                index += 1
            if not characters:
                continue
            end, rest = _all(tokens, at, left) if characters == left else _reach(tokens, at, characters, left)
            left -= characters
            in_part = rest > 0 and end < len(tokens)  # the span ends within this token
            if inside:
                self.total += end + in_part - at - begun
            if in_part:
                tokens[end] -= rest
            at, begun = end, in_part
        self._tokens = tokens[at:]
        if begun:
            self._tokens[0] = -self._tokens[0]


def _all(lengths: Sequence[int], at: int, characters: int) -> tuple[int, int]:
    """As ``_reach``, for who expects that the characters reach to the end."""
    end = len(lengths)
    total = sum(lengths[at:])
    if total > characters:
        return _reach(lengths, at, characters, total)
    while total == characters and not lengths[end - 1]:
        end -= 1
    return end, 0


def _reach(lengths: Sequence[int], at: int, characters: int, expected: int) -> tuple[int, int]:
    """How far so many characters reach from the token at ``at`` on: up to the first token that is not all among them
    and how many of its are, or behind the one that ends with them. About ``expected`` characters reach to the end.
    """
    end = len(lengths)
    while end - at > FEW:  # to sum up one by one would take longer
        likely = characters * (end - at) // expected
        middle = at + min(max(likely, FEW), (end - at) // 2)
        part = sum(lengths[at:middle])
        if part < characters:
            at, characters, expected = middle, characters - part, max(expected - part, 1)
        else:
            end, expected = middle, max(part, 1)
    while at < end and 0 < characters >= lengths[at]:
        characters -= lengths[at]
        at += 1
    return at, characters
