"""Small hand-made tokenizers, one for each kind of decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models

from derender_core.tokenizer import ModelTokenizer

BOS, EOS, THINK, PLAIN = "<s>", "</s>", "</think>", "<plain>"


def byte_alphabet() -> dict[int, str]:
    """The characters that byte-level vocabularies write for bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + at) for at, byte in enumerate(others)}


def make(model: Any, decoder: Any, specials: Sequence[str] = (BOS, EOS, THINK)) -> ModelTokenizer:
    tokenizer = Tokenizer(model)
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials])
    tokenizer.add_tokens([AddedToken(PLAIN, special=False)])
    return ModelTokenizer(tokenizer)


def word_level(tokens: Sequence[str], decoder: Any) -> ModelTokenizer:
    vocabulary = {token: at for at, token in enumerate(dict.fromkeys([*tokens, "<unk>"]))}
    return make(models.WordLevel(vocabulary, unk_token="<unk>"), decoder)


def byte_level(*tokens: bytes) -> ModelTokenizer:
    alphabet = byte_alphabet()
    every = [*(bytes([byte]) for byte in range(0x100)), *tokens]
    return word_level(["".join(alphabet[byte] for byte in token) for token in every], decoders.ByteLevel())


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(0x100)]
PIECES = ["▁", "▁▁", "▁Say", ":", "▁Hello", "▁big", "▁world", "a", "b▁c", "é", "▁你", "", "<0x4G>", "."]


def llama2_decoder() -> Any:
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def llama2() -> ModelTokenizer:
    return word_level(BYTE_TOKENS + PIECES, llama2_decoder())


TABLED: dict[str, Callable[[], ModelTokenizer]] = {
    "byte_level": lambda: byte_level(b" hello", "é".encode(), b"\xf0\x9f", b"\x8c\x8a", b"\xa9 x\xe4\xbd", b"\xe4a"),
    "llama2": llama2,
    "gemma": lambda: word_level(
        BYTE_TOKENS + PIECES,
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
    ),
    "strip_three": lambda: word_level(
        [*BYTE_TOKENS[0x1E:0x24], *BYTE_TOKENS[0xC2:0xC6], *PIECES],
        decoders.Sequence(
            [decoders.ByteFallback(), decoders.Fuse(), decoders.Fuse(), decoders.Strip("a", 3, 0)],
        ),
    ),
    "metaspace": lambda: word_level(PIECES, decoders.Metaspace()),
    "metaspace_never": lambda: word_level(PIECES, decoders.Metaspace(prepend_scheme="never")),
    "metaspace_bytes": lambda: word_level(
        BYTE_TOKENS + PIECES,
        decoders.Sequence(
            [decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip("H", 1, 0)],
        ),
    ),
    "no_decoder": lambda: word_level(PIECES, None),
    "regex": lambda: word_level(
        [*BYTE_TOKENS[0xC2:0xC6], *BYTE_TOKENS[0xA0:0xA4], *PIECES],
        decoders.Sequence([decoders.Replace(Regex("▁+"), " "), decoders.ByteFallback(), decoders.Fuse()]),
    ),
}
WINDOWED: dict[str, Callable[[], ModelTokenizer]] = {
    "word_piece": lambda: word_level(["un", "##able", "!", "n't", "do", "a", "é"], decoders.WordPiece()),
    "bpe_suffix": lambda: word_level(["a</w>", "b", "c</w>", "é", "de"], decoders.BPEDecoder()),
    "ctc": lambda: word_level(["<pad>", "|", "a", "b", "é"], decoders.CTC()),
}


@pytest.fixture(scope="session")
def small_tokenizers() -> dict[str, ModelTokenizer]:
    """By name: byte_level, llama2, gemma, strip_three, regex, metaspace, metaspace_never, metaspace_bytes, no_decoder,
    word_piece, bpe_suffix, ctc. All have the special tokens <s>, </s>, </think> and the added token <plain>.
    """
    return {name: build() for name, build in (TABLED | WINDOWED).items()}


@pytest.fixture(scope="session")
def make_byte_level() -> Callable[..., ModelTokenizer]:
    """``make_byte_level(b"ok", b"\\xf0\\x9f")``: a byte-level tokenizer with all single bytes and these tokens."""
    return byte_level
