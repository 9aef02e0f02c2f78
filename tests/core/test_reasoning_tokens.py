"""Reasoning tokens are counted as if characters were understood one by one."""

from __future__ import annotations

import random

import pytest

from derender_core.reasoning_tokens import ReasoningTokens

Spans = list[tuple[bool, int]]


def counted_one_by_one(lengths: list[int], spans: Spans) -> tuple[int, list[int]]:
    """Reasoning tokens, and what is left of the lengths: of the first, negative when it was begun."""
    inside = [flag for flag, characters in spans for _ in range(characters)]
    total = at = 0
    for place, length in enumerate(lengths):
        if at >= len(inside):
            return total, lengths[place:]
        total += inside[at]
        if at + length > len(inside):
            return total, [len(inside) - at - length, *lengths[place + 1 :]]
        at += length
    return total, []


def some_spans(rng: random.Random, characters: int) -> Spans:
    spans: Spans = []
    while characters:
        spans.append((rng.random() < 0.5, rng.randint(0, min(characters, rng.choice((2, 9, 10_000))))))
        characters -= spans[-1][1]
    return spans


@pytest.mark.parametrize("seed", range(200))
def test_counts_what_begins_inside(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.choice((0, 0, 1, 2, 5, 30)) for _ in range(rng.choice((1, 3, 9, 40, 400)))]
    spans = some_spans(rng, rng.randint(0, sum(lengths)))
    tokens = ReasoningTokens(0, [])
    tokens.add(lengths)
    tokens.count(spans)
    assert (tokens.total, tokens.pending) == counted_one_by_one(lengths, spans)


@pytest.mark.parametrize("seed", range(200))
def test_it_does_not_matter_how_spans_are_dealt_out(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.choice((0, 1, 2, 5, 30)) for _ in range(60)]
    spans = some_spans(rng, sum(lengths))
    at_once, one_by_one = ReasoningTokens(0, []), ReasoningTokens(0, [])
    at_once.add(lengths)
    at_once.count(spans)
    one_by_one.add(lengths)
    for span in spans:
        one_by_one = ReasoningTokens(one_by_one.total, one_by_one.pending)
        one_by_one.count([span])
    assert (at_once.total, at_once.pending) == (one_by_one.total, one_by_one.pending)


def test_text_that_no_token_gave_ends_the_last_one() -> None:
    tokens = ReasoningTokens(0, [3, 0])
    tokens.count([(True, 5)])
    assert (tokens.total, tokens.pending) == (2, [])
