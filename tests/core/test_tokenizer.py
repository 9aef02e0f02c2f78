"""Loading tokenizer files, and what a tokenizer says about its tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from derender_core.errors import TokenIdError, TokenizerLoadError
from derender_core.tokenizer import ModelTokenizer


def write_model(directory: Path, **files: Any) -> Path:
    """A directory with a small tokenizer.json (ids 0-5, one special token) and these JSON files."""
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "Ġhi": 1, "<end>": 2, "Ĩ": 3}, unk_token="<unk>"))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True)])
    tokenizer.add_tokens([AddedToken("<tool>", special=False)])
    tokenizer.save(str(directory / "tokenizer.json"))
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return directory


def test_without_a_configuration_there_are_no_roles(tmp_path: Path) -> None:
    model = ModelTokenizer.load(write_model(tmp_path))
    assert model.config == {}
    assert model.size == 6
    assert model.added_ids == {4, 5}
    assert model.special_ids == {4}
    assert (model.bos_token, model.eos_token, model.pad_token) == (None, None, None)
    assert (model.bos_token_id, model.eos_token_id, model.pad_token_id) == (None, None, None)


@pytest.mark.parametrize("eos", ["<eos>", {"__type": "AddedToken", "content": "<eos>", "lstrip": False}])
def test_a_role_is_a_string_or_a_serialised_token(tmp_path: Path, eos: object) -> None:
    model = ModelTokenizer.load(str(write_model(tmp_path, tokenizer_config={"eos_token": eos, "bos_token": None})))
    assert (model.eos_token, model.eos_token_id) == ("<eos>", 4)
    assert (model.bos_token, model.bos_token_id) == (None, None)


def test_a_role_may_stand_in_the_special_tokens_map_only(tmp_path: Path) -> None:
    directory = write_model(
        tmp_path,
        tokenizer_config={"eos_token": None, "pad_token": "<tool>", "model_max_length": 8},
        special_tokens_map={"eos_token": {"content": "<eos>"}, "pad_token": "<eos>"},
    )
    model = ModelTokenizer.load(directory)
    assert (model.eos_token_id, model.pad_token_id) == (4, 5)
    assert model.config["model_max_length"] == 8


def test_a_role_that_is_no_token_has_no_id(tmp_path: Path) -> None:
    model = ModelTokenizer.load(write_model(tmp_path, tokenizer_config={"eos_token": "<nowhere>"}))
    assert (model.eos_token, model.eos_token_id) == ("<nowhere>", None)


@pytest.mark.parametrize(
    "config",
    [
        {"eos_token": "<end>"},
        {"additional_special_tokens": ["<end>"]},
        {"additional_special_tokens": [{"content": "<end>"}]},
        {"extra_special_tokens": {"image": "<end>"}},
    ],
)
def test_a_token_named_for_a_role_is_special(tmp_path: Path, config: dict[str, Any]) -> None:
    model = ModelTokenizer.load(write_model(tmp_path, tokenizer_config=config))
    assert model.special_ids == {2, 4}
    assert model.decode([1, 2]) == model.tokenizer.decode([1, 2]) == " hi"
    assert model.decode([1, 2], skip_special_tokens=False) == " hi<end>"


def test_a_token_that_only_the_configuration_knows_is_added_with_its_id(tmp_path: Path) -> None:
    declared = {
        "7": {"content": "<second>", "special": False},
        "6": {"content": "<first>", "special": True},
        "4": {"content": "<eos>", "special": True},
        "99": {"content": "<elsewhere>", "special": True},
    }
    model = ModelTokenizer.load(write_model(tmp_path, tokenizer_config={"added_tokens_decoder": declared}))
    assert model.size == 8
    assert (model.token_id("<first>"), model.token_id("<second>")) == (6, 7)
    assert model.special_ids == {4, 6}
    assert model.token_id("<elsewhere>") is None


def test_prompts_are_neither_cut_nor_filled_up(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(write_model(tmp_path) / "tokenizer.json"))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    model = ModelTokenizer.load(tmp_path)
    assert model.encode("<eos>" * 3) == [4, 4, 4]
    assert model.encode("<eos>") == [4]


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"nowhere is not a directory"):
        ModelTokenizer.load(tmp_path / "nowhere")
    with pytest.raises(TokenizerLoadError, match=r"has no tokenizer\.json"):
        ModelTokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 1}', encoding="utf-8")
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json: "):
        ModelTokenizer.load(tmp_path)
    write_model(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(TokenizerLoadError, match=r"tokenizer_config\.json: "):
        ModelTokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(TokenizerLoadError, match=r"tokenizer_config\.json: it must be a JSON object"):
        ModelTokenizer.load(tmp_path)


def test_a_token_is_found_by_the_text_it_stands_for(
    make_byte_level: Callable[..., ModelTokenizer], small_tokenizers: dict[str, ModelTokenizer]
) -> None:
    model = make_byte_level(b" hello", "é".encode())
    for text in ("<s>", "<plain>", " hello", "é", "a", "\n"):
        token_id = model.token_id(text)
        assert token_id is not None
        assert model.token_text(token_id) == text
    # How the vocabulary spells a space is not a text that the model can say with that token.
    assert model.token_id("Ġhello") is None
    assert model.token_id("hello") is None
    llama = small_tokenizers["llama2"]
    assert llama.token_id(" Hello") == llama.tokenizer.token_to_id("▁Hello")
    assert llama.token_id("\n") == llama.tokenizer.token_to_id("<0x0A>")
    assert llama.token_id("<0x0A>") is None


def test_a_token_stands_for_exact_bytes(
    make_byte_level: Callable[..., ModelTokenizer], small_tokenizers: dict[str, ModelTokenizer]
) -> None:
    model = make_byte_level(b"a\xe4\xbd")
    token_id = next(at for at in range(model.size) if model.token_bytes(at) == b"a\xe4\xbd")
    assert model.token_text(token_id) == "a\N{REPLACEMENT CHARACTER}"
    assert model.token_bytes(model.token_id("</think>") or 0) == b"</think>"
    assert [model.token_bytes(at) for at in (-1, model.size, 2**40)] == [b"", b"", b""]
    assert {model.token_bytes(at) for at in range(0x100)} == {bytes([byte]) for byte in range(0x100)}
    llama = small_tokenizers["llama2"]
    assert llama.token_bytes(llama.tokenizer.token_to_id("<0xE4>")) == b"\xe4"
    assert llama.token_bytes(llama.tokenizer.token_to_id("▁▁")) == b"  "
    words = small_tokenizers["word_piece"]
    assert words.token_bytes(words.tokenizer.token_to_id("é")) == "é".encode()


def test_a_lone_surrogate_is_a_replacement_character(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    model = make_byte_level("\N{REPLACEMENT CHARACTER}".encode(), "🌊".encode())
    for text, plain in (("a\ud800b", "a\N{REPLACEMENT CHARACTER}b"), ("\ud83c\udf0a", "🌊")):
        assert model.encode(text) == model.encode(plain)
        assert model.token_id(text) == model.token_id(plain)
    assert model.token_id("\ud83c\udf0a") is not None


def test_decoding_a_negative_id_is_refused(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    with pytest.raises(TokenIdError, match="-1"):
        make_byte_level().decode([-1])


class CountedIds(Sequence[int]):
    """Token ids that count how many of them were read."""

    def __init__(self, ids: list[int]) -> None:
        self.ids, self.read = ids, 0

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: Any) -> Any:
        part = self.ids[at]
        self.read += len(part) if isinstance(part, list) else 1
        return part


def test_a_prompt_is_read_from_its_end_only_as_far_as_needed(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    model = make_byte_level(b"<|im_start|>", b"word ")
    words, start = [model.token_id("word ")] * 100_000, model.token_id("<|im_start|>")
    think = model.token_id("</think>")
    ids = CountedIds([*words, think, start, *words[:10], think, *words[:10]])  # type: ignore[list-item]
    prompt = model.prompt(ids)
    assert ids.read == 0
    assert prompt.last_of("</think>", "<think>") == "</think>"
    assert prompt.current_turn == "word " * 10 + "</think>" + "word " * 10
    assert ids.read < 100


def test_a_prompt_without_a_turn_is_read_to_its_start(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    model = make_byte_level(b"word ")
    word, bos = model.token_id("word "), model.token_id("<s>")
    assert word is not None
    assert bos is not None
    assert model.prompt([bos, *[word] * 1000]).current_turn == "<s>" + "word " * 1000
    assert model.prompt([]).current_turn == ""


@pytest.mark.real_tokenizer
@pytest.mark.parametrize(
    ("name", "eos", "markers"),
    [
        ("qwen3", "<|im_end|>", ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>"]),
        ("llama3_1", "<|eot_id|>", ["<|start_header_id|>", "<|end_header_id|>"]),
        ("deepseek_v3", "<｜end▁of▁sentence｜>", ["<｜tool▁calls▁begin｜>", "<｜Assistant｜>"]),
        ("deepseek", "<｜end▁of▁sentence｜>", ["<think>", "</think>", "<｜tool▁sep｜>"]),
        ("gemma3", "<end_of_turn>", ["<start_of_turn>", "\n\n"]),
        ("llama2", "</s>", ["<s>", "\n", " Hello"]),
    ],
)
def test_markers_of_real_models_are_single_tokens(
    real_tokenizer: Callable[[str], ModelTokenizer], name: str, eos: str, markers: list[str]
) -> None:
    model = real_tokenizer(name)
    assert model.eos_token == eos
    assert model.eos_token_id == model.token_id(eos)
    assert model.eos_token_id in model.special_ids
    for marker in markers:
        token_id = model.token_id(marker)
        assert token_id is not None
        assert model.token_text(token_id) == marker
        assert model.decode([token_id, token_id], skip_special_tokens=False).strip() == (marker * 2).strip()
    assert model.token_id("<|no such marker|>") is None
