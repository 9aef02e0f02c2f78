"""What each token id stands for, worked out once from the tokenizer's decoder.

``tokenizers`` decodes a list of tokens by a chain of decoders (the ``decoder`` object of ``tokenizer.json``). For the
two chains that language models use, a token's share of the text does not depend on its neighbours, apart from the
borders of characters and the start of the sequence. So it can be looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from tokenizers import Regex, Tokenizer, decoders
from tokenizers.pre_tokenizers import ByteLevel

__all__ = ["DecoderShape", "TokenTable", "build_table", "read_shape", "tokens_by_id"]

# The byte tokens that the ByteFallback decoder recognises: six characters whose middle parses as an u8 in base 16.
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>", re.ASCII)


class _Metaspace(NamedTuple):
    """The Metaspace decoder: ``mark`` is a space, and nothing in the first token of a sequence if ``drop_first``."""

    mark: str
    drop_first: bool


_Step = tuple[str, str] | _Metaspace | decoders.Replace


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """How a decoder turns tokens into text.

    Args:
        kind: ``"bytes"``: tokens are bytes in the byte-level alphabet. ``"pieces"``: tokens are text, with marks for
            spaces. ``"other"``: only the decoder itself can tell.
        steps: pieces: what happens to each token by itself, in order.
        byte_fallback: pieces: tokens such as ``<0xE2>`` are bytes.
        joined: pieces: tokens are joined by a space (a tokenizer without a decoder).
        strip: pieces: how many ``strip_content`` characters are taken off the start of the sequence.
        strip_content: pieces: the character.
    """

    kind: Literal["bytes", "pieces", "other"]
    steps: tuple[_Step, ...] = ()
    byte_fallback: bool = False
    joined: bool = False
    strip: int = 0
    strip_content: str = " "

    @property
    def first_differs(self) -> bool:
        """Whether the first token of a sequence gives another text than elsewhere."""
        return self.joined or any(isinstance(step, _Metaspace) and step.drop_first for step in self.steps)

    def piece_text(self, token: str, *, first: bool = False) -> str:
        """Text of a token of kind ``"pieces"``, before bytes are put together."""
        for step in self.steps:
            if isinstance(step, _Metaspace):
                token = token.replace(step.mark, "" if first and step.drop_first else " ")
            elif isinstance(step, tuple):
                token = token.replace(*step)
            else:
                token = step.decode([token])
        return " " + token if self.joined and not first else token


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Texts of all ids.

    Args:
        shape: the decoder's shape; for ``"other"`` the table is empty.
        texts: by id, the text of an ordinary token. None for ids that need care: those in the other tables, and gaps.
        partial: by id, the bytes of tokens that are not whole characters.
        specials: by id, the text of special tokens.
    """

    shape: DecoderShape
    texts: list[str | None] = field(default_factory=list)
    partial: dict[int, bytes] = field(default_factory=dict)
    specials: dict[int, str] = field(default_factory=dict)


def read_shape(tokenizer: Tokenizer) -> DecoderShape:
    """Recognise the decoder of ``tokenizer``."""
    if tokenizer.decoder is None:
        return DecoderShape("pieces", joined=True)
    # The pickled form of a decoder is its JSON in tokenizer.json; other ways to it serialise the whole vocabulary.
    chain = _flatten(json.loads(tokenizer.decoder.__getstate__()))
    if [step["type"] for step in chain if step["type"] != "Fuse"] == ["ByteLevel"]:
        return DecoderShape("bytes")
    return _read_pieces(chain) or DecoderShape("other")


def _flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for part in decoder["decoders"] for step in _flatten(part)]


def _read_pieces(chain: Sequence[Mapping[str, Any]]) -> DecoderShape | None:
    """Recognise ``(Replace | Metaspace)* ByteFallback? (Fuse+ Strip?)?``, the chain of SentencePiece vocabularies."""
    rest = list(chain)
    steps: list[_Step] = []
    while rest and rest[0]["type"] in ("Replace", "Metaspace"):
        step = rest.pop(0)
        if step["type"] == "Metaspace":
            steps.append(_Metaspace(step["replacement"], step.get("prepend_scheme", "always") != "never"))
        elif step["pattern"].get("String"):
            steps.append((step["pattern"]["String"], step["content"]))
        elif step["pattern"].get("Regex"):
            # Not Python's regular expressions: the library has its own.
            steps.append(decoders.Replace(Regex(step["pattern"]["Regex"]), step["content"]))
        else:
            return None
    byte_fallback = bool(rest) and rest[0]["type"] == "ByteFallback"
    rest = rest[byte_fallback:]
    fused = bool(rest) and rest[0]["type"] == "Fuse"
    while rest and rest[0]["type"] == "Fuse":
        rest.pop(0)
    strip, strip_content = 0, " "
    if fused and rest and rest[0]["type"] == "Strip" and not rest[0]["stop"]:
        strip, strip_content = rest[0]["start"], rest[0]["content"]
        rest.pop(0)
    if rest:
        return None
    return DecoderShape("pieces", tuple(steps), byte_fallback, strip=strip, strip_content=strip_content)


def tokens_by_id(tokenizer: Tokenizer) -> list[str | None]:
    """The tokens of all ids up to the highest, added tokens included; None where an id has none."""
    added = tokenizer.get_added_tokens_decoder()
    # One by one: `get_vocab` is a dict in no order, which takes several times as long to make and to read.
    tokens = list(map(tokenizer.id_to_token, range(tokenizer.get_vocab_size(with_added_tokens=True))))
    if None in tokens:  # ids are left out or shared by tokens, so the highest is not the number of tokens
        highest = max(chain(tokenizer.get_vocab(with_added_tokens=True).values(), added), default=-1)
        tokens = list(map(tokenizer.id_to_token, range(highest + 1)))
    for token_id, token in added.items():
        tokens[token_id] = token.content
    return tokens


def build_table(tokenizer: Tokenizer, tokens: Sequence[str | None], special_ids: frozenset[int]) -> TokenTable:
    """Work out the texts of all ids.

    Args:
        tokenizer: the tokenizer.
        tokens: its ``tokens_by_id``.
        special_ids: ids of the special tokens.
    """
    shape = read_shape(tokenizer)
    if shape.kind == "other":
        return TokenTable(shape)
    table = _build_bytes(shape, tokens) if shape.kind == "bytes" else _build_pieces(shape, tokens)
    for token_id in special_ids:
        text = table.texts[token_id]
        if text is not None:
            table.specials[token_id] = text
            table.texts[token_id] = None
    return table


def _byte_alphabet() -> dict[int, int]:
    """From the characters of the byte-level alphabet to the bytes they stand for (the table of GPT-2).

    Printable latin-1 characters stand for themselves, the other bytes in order for the characters from U+0100 on.
    """
    alphabet = {char for char in ByteLevel.alphabet() if ord(char) < 0x100}
    others = [byte for byte in range(0x100) if chr(byte) not in alphabet]
    return {ord(char): ord(char) for char in alphabet} | {0x100 + at: byte for at, byte in enumerate(others)}


def _build_bytes(shape: DecoderShape, tokens: Sequence[str | None]) -> TokenTable:
    table = TokenTable(shape, list(tokens))
    to_byte = _byte_alphabet()
    # Latin-1 characters outside the alphabet are no bytes: send them where latin-1 cannot encode them.
    outside = {byte: 0x10FFFF for byte in range(0x100) if byte not in to_byte}
    translation = outside | to_byte
    for token_id, token in enumerate(tokens):
        if token is None or token.isascii():  # ASCII stands for itself, be it in the alphabet or not
            continue
        try:
            data = token.translate(translation).encode("latin-1")
        except UnicodeEncodeError:
            continue  # the decoder takes a token with a character outside the alphabet as it is
        try:
            table.texts[token_id] = data.decode()
        except UnicodeDecodeError:
            table.texts[token_id] = None
            table.partial[token_id] = data
    return table


def _build_pieces(shape: DecoderShape, tokens: Sequence[str | None]) -> TokenTable:
    table = TokenTable(shape)
    for token_id, token in enumerate(tokens):
        text = None if token is None else shape.piece_text(token)
        if shape.byte_fallback and text is not None and len(text) == 6 and (byte := _BYTE_TOKEN.fullmatch(text)):
            table.partial[token_id] = bytes([int(byte[1], 16)])
            text = None
        table.texts.append(text)
    return table
