"""Mistral's ``tekken.json``, read by ``mistral-common`` (the extra ``mistral``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from derender_core.byte_tokenizer import AddedText, ByteTokenizer, split_runs
from derender_core.errors import TokenizerLoadError

__all__ = ["TEKKEN_FILE", "load_tekken"]

TEKKEN_FILE = "tekken.json"
# The regular expressions of tiktoken overflow their stack on longer runs of white space.
BLANK_RUN = 25_000


def load_tekken(path: Path) -> tuple[ByteTokenizer, dict[str, Any]]:
    """Load a ``tekken.json``.

    Control tokens written out in a text become their ids, as chat templates need it. ``mistral-common`` never does
    that, so what it renders itself is safer against markers in messages.

    Args:
        path: the file.

    Returns:
        The tokenizer, and what ``tokenizer_config.json`` would say: the tokens of the special roles.

    Raises:
        TokenizerLoadError: ``mistral-common`` is not installed, or cannot read the file.
    """
    try:
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    except ImportError as error:
        raise TokenizerLoadError(
            f"cannot load a tokenizer: {path} needs mistral-common ({error}); pip install 'derender[mistral]'"
        ) from error
    try:
        tekken = Tekkenizer.from_file(path)
        special_count, size = tekken.num_special_tokens, tekken.n_words
        added = {token_id: AddedText(tekken.id_to_piece(token_id), special=True) for token_id in range(special_count)}
        tokens = [b""] * special_count + [
            tekken.id_to_byte_piece(token_id, SpecialTokenPolicy.KEEP) for token_id in range(special_count, size)
        ]
        bos, eos = tekken.bos_id, tekken.eos_id
    except Exception as error:  # the library checks files with assert, and with whatever reading them raises
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {type(error).__name__}: {error}") from error

    def encode(text: str) -> list[int]:
        pieces = split_runs(text, BLANK_RUN, blanks_only=True)
        return [token_id for piece in pieces for token_id in tekken.encode(piece, bos=False, eos=False)]

    config = {"bos_token": added[bos].content, "eos_token": added[eos].content}
    return ByteTokenizer(tokens, added, encode, prefix=(bos,)), config
