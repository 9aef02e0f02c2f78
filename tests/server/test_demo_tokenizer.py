"""The demo model's files are what their training script makes, and look to the server like those of a real model."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from tokenizers import Tokenizer

from derender_server.demo import demo_model_path
from derender_server.model import ServedModel

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    "What is the weather in Lisbon?",
    'def f(x):\n    return {"a": [1, 22, 333]}\n\n',
    "Zażółć gęślą jaźń, 東京の天気, Привет, مرحبا, नमस्ते, 안녕하세요",
    "👨‍👩‍👧‍👦 🦜 e\u0301 \u200b \x00",
    "  leading, trailing  \r\n\t",
]


@pytest.fixture(scope="module")
def training() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_demo_tokenizer", ROOT / "scripts" / "train_demo_tokenizer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(demo_model_path() / "tokenizer.json"))


@pytest.fixture(scope="module")
def model() -> ServedModel:
    return ServedModel.load("demo")


def test_the_files_in_the_repository_are_what_the_script_makes(
    training: ModuleType, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training.write(tmp_path)
    assert "4009 tokens" in capsys.readouterr().out
    # Through the library, because its versions differ in how they lay the file out.
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).to_str() == tokenizer.to_str()
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        made = (tmp_path / name).read_text(encoding="utf-8")
        assert made == (demo_model_path() / name).read_text(encoding="utf-8"), name


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in demo_model_path().iterdir()) < 300_000


def test_which_tokens_are_special(tokenizer: Tokenizer) -> None:
    special = {token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()}
    assert special == {
        "<|endoftext|>": True,
        "<|im_start|>": True,
        "<|im_end|>": True,
        "<think>": False,
        "</think>": False,
        "<tool_call>": False,
        "</tool_call>": False,
        "<tool_response>": False,
        "</tool_response>": False,
    }
    for text in special:
        assert len(tokenizer.encode(text).ids) == 1, text


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_the_round_trip(model: ServedModel, tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert model.tokenizer.encode(text) == ids
    assert model.tokenizer.decode(ids) == text


def test_some_characters_need_several_tokens(tokenizer: Tokenizer) -> None:
    # Otherwise the demo would never show characters that straddle chunks.
    for character in "🦜鬱ᚠ":
        assert len(tokenizer.encode(character).ids) > 1, character


def test_common_words_are_one_token(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("What is the weather in Lisbon?").tokens == [
        "What",
        "Ġis",
        "Ġthe",
        "Ġweather",
        "Ġin",
        "ĠLisbon",
        "?",
    ]


def test_the_server_reads_the_model(model: ServedModel) -> None:
    end, pad = (model.tokenizer.token_id(text) for text in ("<|im_end|>", "<|endoftext|>"))
    assert model.directory == demo_model_path()
    assert model.eos_token_id == end
    assert model.eos_token_ids == {end, pad}
    assert model.max_model_len == 32768
    assert model.vocab_size == 4096
    assert model.tokenizer.size == 4009  # the rest are padding rows, as real models have them


def test_the_configuration_is_json_that_other_software_reads() -> None:
    config = json.loads((demo_model_path() / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["eos_token"] == "<|im_end|>"
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
