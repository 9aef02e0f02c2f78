"""A stand-in for vLLM on the path, and a small model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

sys.path.insert(0, str(Path(__file__).parent / "standin"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tokenizer whose tokens are bytes and markers; ``<|call|>`` and ``<|im_end|>`` are special."""
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in ("<|im_end|>", "<|call|>")]
    )
    markers = ("<think>", "</think>", "<tool_call>", "</tool_call>")
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in markers])
    directory = tmp_path_factory.mktemp("model")
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(autouse=True)
def configured(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bridge is set up for the small model."""
    monkeypatch.setenv("DERENDER_VLLM_TOKENIZER", str(model))
