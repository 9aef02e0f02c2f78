"""``ByteTokenizer``: a vocabulary of byte strings with an encoder, for models without a ``tokenizer.json``.

It has what derender uses of ``tokenizers.Tokenizer``, so ``ModelTokenizer`` takes either. Tokens are bytes, so decoding
is joining them: the case that ``token_table`` calls ``"bytes"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from derender_core.token_table import DecoderShape, TokenTable

__all__ = ["AddedText", "ByteTokenizer", "Encoded", "split_runs"]

_RUN = re.compile(r"\s+|\S+")


class AddedText(NamedTuple):
    """A token that encoding takes as a whole wherever its text stands, as ``tokenizers.AddedToken``.

    Args:
        content: the text.
        special: whether decoding with ``skip_special_tokens`` leaves it out.
    """

    content: str
    special: bool


@dataclass(frozen=True)
class Encoded:
    """An encoded text.

    Args:
        ids: the token ids.
        text: the text.
        lengths: for each id, how many bytes of the text it stands for; 0 for those that were added.
    """

    ids: list[int]
    text: str
    lengths: Callable[[], list[int]] = field(repr=False)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """For each id, where the characters that it has bytes of begin and end in the text; else ``(0, 0)``."""
        lengths = self.lengths()
        owner = range(len(self.text)) if self.text.isascii() else _owners(self.text)
        return [
            (owner[end - length], owner[end - 1] + 1) if length else (0, 0)
            for length, end in zip(lengths, accumulate(lengths), strict=True)
        ]


def _owners(text: str) -> list[int]:
    """For each byte of the text, which character it belongs to."""
    return [at for at, char in enumerate(text) for _ in char.encode()]


@dataclass(frozen=True)
class ByteTokenizer:
    """A vocabulary of byte strings.

    Args:
        tokens: by id, the bytes; ``b""`` for ids that stand for nothing. The bytes of ``added`` are not among them.
        added: by id, the tokens that encoding looks for in the text before anything else.
        encode_ordinary: encodes a text without added tokens.
        prefix: ids that ``add_special_tokens`` puts in front, such as BOS.
    """

    tokens: Sequence[bytes]
    added: Mapping[int, AddedText]
    encode_ordinary: Callable[[str], list[int]] = field(repr=False)
    prefix: tuple[int, ...] = ()

    @cached_property
    def _added_ids(self) -> dict[str, int]:
        return {token.content: token_id for token_id, token in self.added.items()}

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {token: token_id for token_id, token in reversed(list(enumerate(self.tokens))) if token}

    @cached_property
    def _added_pattern(self) -> re.Pattern[str] | None:
        texts = sorted((text for text in self._added_ids if text), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    @property
    def size(self) -> int:
        """The highest id + 1."""
        return max(len(self.tokens), max(self.added, default=-1) + 1)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoded:
        """Encode a text; added tokens written out in it become their ids.

        Raises:
            UnicodeEncodeError: half a surrogate pair, which no bytes stand for.
        """
        text.encode()
        ids = [token_id for piece in self._pieces(text) for token_id in piece]
        added = list(self.prefix) if add_special_tokens else []

        def lengths() -> list[int]:
            return [0] * len(added) + [len(self.token_bytes(token_id)) for token_id in ids]

        return Encoded(added + ids, text, lengths)

    def _pieces(self, text: str) -> Iterator[list[int]]:
        at = 0
        for found in self._added_pattern.finditer(text) if self._added_pattern else ():
            if found.start() > at:
                yield self.encode_ordinary(text[at : found.start()])
            yield [self._added_ids[found[0]]]
            at = found.end()
        if at < len(text):
            yield self.encode_ordinary(text[at:])

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of an id; ``b""`` for one that is unknown."""
        added = self.added.get(token_id)
        if added is not None:
            return added.content.encode()
        return self.tokens[token_id] if 0 <= token_id < len(self.tokens) else b""

    def token_to_id(self, text: str) -> int | None:
        """The id of a token that is exactly this text; of two, the added one."""
        found = self._added_ids.get(text)
        return self._ids.get(text.encode()) if found is None else found

    def id_to_token(self, token_id: int) -> str | None:
        """The text of an id, U+FFFD for what is no character; None for one that is unknown."""
        return self.token_bytes(token_id).decode(errors="replace") or None

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of a whole sequence."""
        dropped = {token_id for token_id, token in self.added.items() if token.special} if skip_special_tokens else ()
        data = b"".join(self.token_bytes(token_id) for token_id in token_ids if token_id not in dropped)
        return data.decode(errors="replace")

    def table(self) -> TokenTable:
        """What each id stands for."""
        table = TokenTable(DecoderShape("bytes"), [None] * self.size)
        for token_id, token in enumerate(self.tokens):
            try:
                table.texts[token_id] = token.decode() or None
            except UnicodeDecodeError:
                table.partial[token_id] = token
        for token_id, added in self.added.items():
            table.partial.pop(token_id, None)
            if added.special:
                table.texts[token_id], table.specials[token_id] = None, added.content
            else:
                table.texts[token_id] = added.content
        return table


def split_runs(text: str, limit: int, *, blanks_only: bool) -> Iterator[str]:
    """The text in pieces without long runs: those of white space, and unless ``blanks_only`` those of other characters.

    Args:
        text: the text; joining the pieces gives it back.
        limit: how many characters of a run come in one piece.
        blanks_only: whether runs without white space may have any length.
    """
    if len(text) <= limit:
        yield text
        return
    start = 0
    for run in _RUN.finditer(text):
        if blanks_only and not run[0].isspace():
            continue
        for cut in range(run.start() + limit, run.end(), limit):
            yield text[start:cut]
            start = cut
    yield text[start:]
