"""Tokenizers with the methods that parsers use."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer


class StandInTokenizer:
    """What a ``transformers`` tokenizer offers to parsers."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self.all_special_tokens = [token.content for token in added.values() if token.special]
        self.eos_token = "<|im_end|>"
        self.eos_token_id = tokenizer.token_to_id(self.eos_token)

    def get_vocab(self) -> dict[str, int]:
        """All tokens with their ids."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=True))

    def get_added_vocab(self) -> dict[str, int]:
        """The added tokens with their ids."""
        return {token.content: token_id for token_id, token in self._tokenizer.get_added_tokens_decoder().items()}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)


def get_tokenizer(name: str) -> StandInTokenizer:
    """Load the tokenizer of a model's directory."""
    return StandInTokenizer(Tokenizer.from_file(str(Path(name) / "tokenizer.json")))
