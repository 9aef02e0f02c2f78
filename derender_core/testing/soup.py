"""Marker soup: outputs that no model would write, made of what parsers look for.

Everything is seeded, so a report that names its seed can be repeated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence

__all__ = ["DEFAULT_MARKERS", "find_markers", "marker_soup", "plain_text"]

DEFAULT_MARKERS: tuple[str, ...] = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "```json\n",
    "\n```",
)

_JSON = (
    '{"name": "ping", "arguments": {}}',
    '{"name": "ping", "parameters": {"a": [1, {"b": "c"}]}}',
    '{"arguments": {"name": "x"}, "name": "ping"}',
    '{"name": "ping", "arguments": {"a": "\\" \\\\ } ]',
    '{"name": "',
    '"arguments": ',
    '"parameters": {"a": "',
    "[ping(a='b', c=[1, (2,)])]",
    "[ping(",
    "ping()",
    '{"a": 1}',
    "null",
    "1e5",
    "-",
    "True",
)
_MARKS = ('"', "'", "\\", "{", "}", "[", "]", "(", ")", "<", ">", "/", "|", ":", ",", ";", "=", "`", "｜", "▁", "\x00")
_BLANK = (" ", "\n", "\n\n", "\r\n", "\t", "   ")
_WORDS = (
    "ping",
    "name",
    "function",
    "user",
    "assistant",
    "Paris",
    "é",
    "日本",
    "😀",
    "👩‍👩‍👧",
    "e\u0301",
    "\u2028",
    "0",
    "42",
)
_PLAIN = (
    "The",
    "tide",
    "is",
    "low",
    "at",
    "six",
    "o'clock",
    "again",
    "Łódź",
    "日本",
    "😀",
    "half-way",
    "(roughly)",
    "1.5",
    "50 %",
)

_MARKER_LIKE = re.compile(r"</?[^<>\s\"'{}]{1,40}>")


def find_markers(texts: Iterable[str]) -> tuple[str, ...]:
    """What looks like a marker in these outputs, such as ``<tag>``, most frequent first; at most 40."""
    seen: dict[str, int] = {}
    for text in texts:
        for marker in _MARKER_LIKE.findall(text):
            seen[marker] = seen.get(marker, 0) + 1
    return tuple(sorted(seen, key=lambda marker: (-seen[marker], marker))[:40])


def marker_soup(seed: int, markers: Sequence[str] = DEFAULT_MARKERS, samples: Sequence[str] = ()) -> str:
    """A random output: markers, their beginnings and ends, JSON, quotes, white space, words, pieces of real outputs.

    Args:
        seed: the same seed gives the same soup.
        markers: the markers of the parser under test.
        samples: real outputs; pieces of them are mixed in, or one of them is damaged.
    """
    rng = random.Random(seed)
    if samples and rng.random() < 0.5:
        return _damaged(rng, rng.choice(samples), markers)
    makers: list[Callable[[], str]] = [
        lambda: rng.choice(markers),
        lambda: rng.choice(markers),
        lambda: _beginning(rng, rng.choice(markers)),
        lambda: rng.choice(markers)[rng.randint(1, 4) :],
        lambda: rng.choice(_JSON),
        lambda: rng.choice(_MARKS),
        lambda: rng.choice(_BLANK),
        lambda: rng.choice(_WORDS),
    ]
    if samples:
        makers.append(lambda: _slice(rng, rng.choice(samples)))
    return "".join(rng.choice(makers)() for _ in range(rng.randint(1, 24)))


def _beginning(rng: random.Random, marker: str) -> str:
    return marker[: rng.randint(1, max(1, len(marker) - 1))]


def _slice(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[start : start + rng.randint(1, 40)]


def _damaged(rng: random.Random, text: str, markers: Sequence[str]) -> str:
    """A real output with a few pieces removed, doubled, or put in."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(1, 12))
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:end] + text[at:]
        elif kind == 2:
            text = text[:at] + rng.choice((*markers, *_MARKS, *_JSON)) + text[at:]
        else:
            text = text[:at]
    return text


def plain_text(seed: int, words: int = 40) -> str:
    """Prose without anything that a parser could look for, no white space at either end."""
    rng = random.Random(seed)
    pieces = [rng.choice(_PLAIN) + rng.choice((" ", " ", " ", ", ", ".\n\n")) for _ in range(words)]
    return "".join(pieces).strip(" \n,.")
