"""Chunkings: the ways in which an output can arrive.

A cut never goes through a special token, since a detokenizer gives those whole. Every way in which the final delta
arrives occurs: with text, or empty behind all text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from derender_core.inputs import Delta, Special
from derender_core.tokenizer import ModelTokenizer

__all__ = ["Cut", "all_cuts", "cut_at", "cut_char", "cut_one", "cut_pairs", "cut_random", "cut_special", "cut_token"]

# What looks like a marker in the families served: <tag>, </tag>, <|tag|>, [TAG], code fences.
_MARKER_LIKE = re.compile(r"</?[^<>\s][^<>]{0,40}>|\[/?[A-Z_]{3,20}\]|```")


@dataclass(frozen=True, slots=True)
class Cut:
    """An output in pieces.

    Args:
        name: which way of cutting it is, for reports.
        deltas: the pieces; the last one is final.
    """

    name: str
    deltas: tuple[Delta, ...]


def cut_at(output: Delta, positions: Iterable[int], name: str, *, flush: bool = False) -> Cut:
    """Cut at these positions, but not inside a special token.

    Args:
        output: the whole output, final.
        positions: where to cut; a position given twice makes an empty delta.
        name: the cut's name.
        flush: end with an empty final delta instead of one with text.
    """
    size = len(output.text)
    inside = {at for mark in output.specials for at in range(mark.start + 1, mark.end)}
    inner = sorted(at for at in positions if 0 <= at <= size and at not in inside)
    edges = [0, *inner, size]
    if flush:
        edges.append(size)
    last = len(edges) - 2
    deltas = [_piece(output, start, edges[i + 1], final=i == last) for i, start in enumerate(edges[:-1])]
    return Cut(name, tuple(deltas))


def _piece(output: Delta, start: int, end: int, *, final: bool) -> Delta:
    specials = tuple(
        Special(mark.start - start, mark.end - start, mark.token_id)
        for mark in output.specials
        if start <= mark.start and mark.end <= end
    )
    return Delta(output.text[start:end], specials, final, output.finish_reason if final else None)


def cut_one(output: Delta, *, flush: bool = False) -> Cut:
    """Everything in one delta; with ``flush``, an empty final delta behind it."""
    return cut_at(output, (), "one, then the end" if flush else "one", flush=flush)


def cut_char(output: Delta) -> Cut:
    """One delta per character."""
    return cut_at(output, range(1, len(output.text)), "char", flush=True)


def cut_special(output: Delta, markers: Sequence[str] = ()) -> Cut:
    """Before and behind every special token, every given marker, and whatever looks like a marker."""
    edges = {at for mark in output.specials for at in (mark.start, mark.end)}
    edges.update(at for match in _MARKER_LIKE.finditer(output.text) for at in match.span())
    for marker in markers:
        edges.update(at for match in re.finditer(re.escape(marker), output.text) for at in match.span())
    return cut_at(output, edges - {0, len(output.text)}, "special")


def cut_token(output: Delta, tokenizer: ModelTokenizer) -> Cut:
    """One delta per token of this tokenizer."""
    offsets = tokenizer.tokenizer.encode(output.text, add_special_tokens=False).offsets
    return cut_at(output, {end for _, end in offsets} - {0, len(output.text)}, "token")


def cut_random(output: Delta, seed: int) -> Cut:
    """Groups of characters of random sizes, now and then an empty delta."""
    rng = random.Random(seed)
    longest = rng.choice((3, 8, 40))
    at, positions = 0, []
    while at < len(output.text):
        positions.append(at)
        if rng.random() >= 0.1:
            at += rng.randint(1, longest)
    return cut_at(output, positions, f"random, seed {seed}", flush=rng.random() < 0.5)


def cut_pairs(output: Delta) -> Iterator[Cut]:
    """Every cut into two."""
    for at in range(1, len(output.text)):
        yield cut_at(output, (at,), f"two, at {at}")


def all_cuts(
    output: Delta,
    *,
    markers: Sequence[str] = (),
    tokenizer: ModelTokenizer | None = None,
    seeds: int = 3,
    pairs: bool = False,
) -> Iterator[Cut]:
    """The cuts that a parser must not notice.

    Args:
        output: the whole output, final.
        markers: additional markers to cut at.
        tokenizer: cut at its tokens, too.
        seeds: how many random cuts.
        pairs: also every cut into two.
    """
    yield cut_one(output)
    yield cut_one(output, flush=True)
    yield cut_special(output, markers)
    yield cut_char(output)
    if tokenizer is not None:
        yield cut_token(output, tokenizer)
    for seed in range(seeds):
        yield cut_random(output, seed)
    if pairs:
        yield from cut_pairs(output)
