"""The served model from its files: a directory, the hub, the demo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from derender_core.errors import InputError, TokenizerLoadError
from derender_server.hub import MODEL_FILES
from derender_server.model import ModelLoadError, ServedModel, UnknownModelError

ModelMaker = Callable[..., Path]
IM_END = 259


@pytest.mark.rule("7.1")
def test_a_directory_gives_everything(small_model: ModelMaker) -> None:
    directory = small_model(
        config={"vocab_size": 300, "max_position_embeddings": 512}, generation_config={"eos_token_id": [257, IM_END]}
    )
    model = ServedModel.load(directory)
    assert model.names == (str(directory),)
    assert model.name == model.root == str(directory)
    assert model.vocab_size == 300
    assert model.eos_token_id == IM_END
    assert model.eos_token_ids == {257, IM_END}
    assert model.max_model_len == 512
    assert model.generation_config == {"eos_token_id": [257, IM_END]}


def test_names_are_what_requests_may_say(small_model: ModelMaker) -> None:
    model = ServedModel.load(small_model(), names=["one", "two"])
    assert model.name == "one"
    assert [model.resolve_name(name) for name in (None, "", "one", "two")] == ["one", "one", "one", "two"]
    with pytest.raises(
        UnknownModelError, match=r"The model `three` does not exist\. Valid names: `one`, `two`\."
    ) as info:
        model.resolve_name("three")
    assert info.value.param == "model"
    assert isinstance(info.value, InputError)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 9, "vocab_size": 10}, 264),  # never below the tokenizer's size
        ({"max_position_embeddings": 9, "text_config": {"vocab_size": 400}}, 400),
        ({"max_position_embeddings": 9, "thinker_config": {"text_config": {"vocab_size": 500}}}, 500),
        ({"max_position_embeddings": 9}, 264),
    ],
)
def test_vocab_size(small_model: ModelMaker, config: dict[str, Any], expected: int) -> None:
    assert ServedModel.load(small_model(config=config)).vocab_size == expected


@pytest.mark.rule("7.7")
@pytest.mark.parametrize(
    ("config", "tokenizer_config", "expected"),
    [
        ({"max_position_embeddings": 100}, {"model_max_length": 50}, 100),
        ({"text_config": {"max_position_embeddings": 70}}, {}, 70),
        ({"n_positions": 60}, {}, 60),
        ({}, {"model_max_length": 50}, 50),
        ({"max_position_embeddings": None}, {"model_max_length": 50.0}, 50),
    ],
)
def test_max_model_len(
    small_model: ModelMaker, config: dict[str, Any], tokenizer_config: dict[str, Any], expected: int
) -> None:
    directory = small_model(config=config, tokenizer_config=tokenizer_config)
    assert ServedModel.load(directory).max_model_len == expected
    assert ServedModel.load(directory, max_model_len=7).max_model_len == 7


@pytest.mark.rule("7.7")
@pytest.mark.parametrize("length", [None, 1e30, -1, True, "2048"])
def test_no_max_model_len_names_the_flag(small_model: ModelMaker, length: object) -> None:
    directory = small_model(config={}, tokenizer_config={"model_max_length": length})
    with pytest.raises(ModelLoadError, match="give --max-model-len"):
        ServedModel.load(directory)


def test_max_model_len_below_one_is_refused(small_model: ModelMaker) -> None:
    with pytest.raises(ModelLoadError, match="--max-model-len must be at least 1, not 0"):
        ServedModel.load(small_model(), max_model_len=0)


@pytest.mark.parametrize(
    ("tokenizer_eos", "generation", "config", "primary", "every"),
    [
        ("<|im_end|>", {}, {}, IM_END, {IM_END}),
        ("<|im_end|>", {"eos_token_id": 257}, {}, IM_END, {257, IM_END}),
        (None, {"eos_token_id": [257, 258]}, {}, 257, {257, 258}),
        (None, {}, {"eos_token_id": 257}, 257, {257}),
        (None, {}, {"text_config": {"eos_token_id": [257]}}, 257, {257}),
        (None, {}, {}, None, set()),
    ],
)
def test_end_of_sequence_ids(
    small_model: ModelMaker,
    tokenizer_eos: str | None,
    generation: dict[str, Any],
    config: dict[str, Any],
    primary: int | None,
    every: set[int],
) -> None:
    directory = small_model(config=config, generation_config=generation, tokenizer_config={"eos_token": tokenizer_eos})
    model = ServedModel.load(directory, max_model_len=10)
    assert (model.eos_token_id, model.eos_token_ids) == (primary, every)


def test_a_broken_file_is_named(small_model: ModelMaker) -> None:
    with pytest.raises(ModelLoadError, match=r"config\.json: it must hold a JSON object, not list"):
        ServedModel.load(small_model("a", files={"config.json": "[]"}))
    with pytest.raises(ModelLoadError, match=r"generation_config\.json"):
        ServedModel.load(small_model("b", files={"generation_config.json": "{"}))


def test_a_directory_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json"):
        ServedModel.load(tmp_path)


@pytest.mark.parametrize("name", ["no/such/directory", "./nowhere", "", "a b"])
def test_what_is_neither_directory_nor_repo_is_refused(name: str) -> None:
    with pytest.raises(ModelLoadError, match="give a directory"):
        ServedModel.load(name)


def test_truncation_in_the_tokenizer_file_is_switched_off(small_model: ModelMaker) -> None:
    directory = small_model()
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert len(ServedModel.load(directory).tokenizer.encode("twelve bytes")) == 12


@pytest.mark.rule("7.2")
def test_a_repo_id_fetches_the_small_files_only(small_model: ModelMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, calls = small_model(), []

    def snapshot_download(repo_id: str, **options: Any) -> str:
        calls.append((repo_id, options))
        return str(directory)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    model = ServedModel.load("some-org/Some.Model-8B", revision="v1")
    assert calls == [("some-org/Some.Model-8B", {"revision": "v1", "allow_patterns": list(MODEL_FILES)})]
    assert (model.root, model.name, model.directory) == ("some-org/Some.Model-8B", "some-org/Some.Model-8B", directory)
    assert not any("safetensors" in pattern or "bin" in pattern or pattern.startswith("*") for pattern in MODEL_FILES)


def test_a_failing_hub_says_which_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(_repo_id: str, **_: Any) -> str:
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(ModelLoadError, match=r"'org/model' at revision 'main'.*no connection"):
        ServedModel.load("org/model", revision="main")


def test_a_local_directory_wins_over_a_repo(small_model: ModelMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_model("org").parent)
    assert ServedModel.load("org").max_model_len == 512


def test_the_demo_needs_neither_directory_nor_hub() -> None:
    model = ServedModel.load("demo")
    assert (model.name, model.root) == ("demo", "demo")
    assert model.max_model_len > 0
    assert model.eos_token_id is not None
