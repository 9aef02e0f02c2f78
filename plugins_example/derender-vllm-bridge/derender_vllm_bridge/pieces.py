"""Cuts deltas into pieces as small as tokens, each with token ids, which is what vLLM's parsers expect.

derender's parsers see text, and the ids of special tokens alone. vLLM's parsers are given the ids of all tokens, in
which they look for their markers, and most of them are only right when little more than one token comes at a time. So
text is cut into words, signs and added tokens, and each piece is encoded again. The ids of markers come out exactly;
those of ordinary text may be other ids than the model's for the same text, which no parser can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from derender_core import Delta, Special

__all__ = ["Piece", "Pieces"]

_SMALL = r"\w+|\s+|[^\w\s]"


class Piece(NamedTuple):
    """A few characters of the output.

    Args:
        text: the characters.
        token_ids: tokens that stand for them.
        specials: the special token that it is, if it is one.
    """

    text: str
    token_ids: tuple[int, ...]
    specials: tuple[Special, ...]


class Pieces:
    """The pieces of texts, by one tokenizer.

    Args:
        tokenizer: vLLM's tokenizer of the model.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.added: dict[str, int] = dict(tokenizer.get_added_vocab())
        markers = sorted(filter(str.strip, self.added), key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, markers), _SMALL]))
        self._ordinary = lru_cache(maxsize=8192)(lambda text: tuple(tokenizer.encode(text, add_special_tokens=False)))

    def split(self, held: str, delta: Delta) -> tuple[list[Piece], str]:
        """The pieces of a delta, and the end of it that may be the beginning of a marker: for the next delta.

        A detokenizer gives markers whole, but a stop string that was waited for may have cut one.

        Args:
            held: what was held back of the delta before.
            delta: the delta. Special tokens keep the ids that the model gave them.
        """
        text, shift = held + delta.text, len(held)
        marks = tuple(Special(low + shift, high + shift, token_id) for low, high, token_id in delta.specials)
        last = marks[-1].end if marks else 0
        end = len(text) if delta.final else max(last, self._certain(text))
        return list(self._of(Delta(text[:end], marks))), text[end:]

    def _certain(self, text: str) -> int:
        """Where the longest tail begins that is a proper prefix of a marker."""
        size = len(text)
        longest = max(map(len, self.added), default=1)
        tails = range(max(0, size - longest + 1), size)
        return next((at for at in tails if any(m.startswith(text[at:]) and m != text[at:] for m in self.added)), size)

    def _of(self, delta: Delta) -> Iterator[Piece]:
        at = 0
        for mark in delta.specials:
            yield from self._of_text(delta.text[at : mark.start])
            text = delta.text[mark.start : mark.end]
            yield Piece(text, (mark.token_id,), (Special(0, len(text), mark.token_id),))
            at = mark.end
        yield from self._of_text(delta.text[at:])

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [token_id for piece in self._of_text(text) for token_id in piece.token_ids]

    def _of_text(self, text: str) -> Iterator[Piece]:
        for match in self._pattern.finditer(text):
            piece = match[0]
            added = self.added.get(piece)
            yield Piece(piece, self._ordinary(piece) if added is None else (added,), ())
