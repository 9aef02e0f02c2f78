"""What the server's tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing

SMALL_SPECIALS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
SMALL_MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SMALL_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% elif enable_thinking is true %}<think>\n{% endif %}{% endif %}"
)

ModelMaker = Callable[..., Path]


def _small_tokenizer() -> Tokenizer:
    """A byte-level tokenizer without merges: every byte is a token, behind it the special tokens and the markers."""
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SMALL_SPECIALS])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in SMALL_MARKERS])
    bos = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bos)])
    return tokenizer


@pytest.fixture
def small_model(tmp_path: Path) -> ModelMaker:
    """``small_model(config=..., generation_config=..., tokenizer_config=..., files=...)``: a model's directory.

    264 tokens: 256 bytes, ``<s> </s> <|im_start|> <|im_end|>`` (special), ``<think> </think> <tool_call>
    </tool_call>``. BOS is added to plain prompts. ``config`` gives 512 tokens of context unless given.
    """

    def make(
        name: str = "small",
        *,
        config: dict[str, Any] | None = None,
        generation_config: dict[str, Any] | None = None,
        tokenizer_config: dict[str, Any] | None = None,
        files: dict[str, str] | None = None,
    ) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        _small_tokenizer().save(str(directory / "tokenizer.json"))
        defaults = {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": SMALL_TEMPLATE}
        contents = {
            "config.json": {"max_position_embeddings": 512} if config is None else config,
            "generation_config.json": generation_config,
            "tokenizer_config.json": defaults | (tokenizer_config or {}),
        }
        for file, content in contents.items():
            if content is not None:
                (directory / file).write_text(json.dumps(content), encoding="utf-8")
        for file, text in (files or {}).items():
            (directory / file).parent.mkdir(exist_ok=True)
            (directory / file).write_text(text, encoding="utf-8")
        return directory

    return make
