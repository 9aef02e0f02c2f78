"""The served model: everything about it that rendering and derendering share. Needs its small files, no weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derender_core.errors import DerenderError, InputError, TokenizerLoadError
from derender_core.tokenizer import ModelTokenizer
from derender_server.hub import fetch_model_files

__all__ = ["ModelLoadError", "ServedModel", "UnknownModelError"]

DEMO_NAME = "demo"
DEMO_DIRECTORY = Path(__file__).parent / "demo" / "model"
REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

# Where multimodal and wrapped models keep the configuration of their language model.
NESTED_CONFIGS = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
# Names under which architectures give the length of their context.
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx")
# Tokenizers without a limit say 1e30; nothing near that is a length.
SANE_LENGTH = 10**9


class ModelLoadError(TokenizerLoadError):
    """A model's files are missing, cannot be fetched or read, or do not say something that is needed."""


class UnknownModelError(InputError, LookupError):
    """The request names a model that is not served here. ``param`` is ``model``."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model by its files.

    Args:
        names: the names it is served under; the first is the one that responses carry. Never empty.
        root: what it was loaded from, as given: a directory, a repo id or ``demo``.
        directory: where its files are.
        tokenizer: its tokenizer.
        config: ``config.json``; ``{}`` when there is none.
        generation_config: ``generation_config.json``; ``{}`` when there is none.
        vocab_size: ids at or above it are not the model's. At least the tokenizer's size.
        eos_token_id: the primary end-of-sequence id, or None.
        eos_token_ids: all ids that end a sequence, the primary one included.
        max_model_len: tokens of prompt and output together.
    """

    names: tuple[str, ...]
    root: str
    directory: Path
    tokenizer: ModelTokenizer
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    vocab_size: int
    eos_token_id: int | None
    eos_token_ids: frozenset[int]
    max_model_len: int

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        revision: str | None = None,
        names: Sequence[str] = (),
        max_model_len: int | None = None,
    ) -> ServedModel:
        """Load a model's small files.

        Args:
            model: a directory, a Hugging Face repo id (only the small files are fetched), or ``demo``.
            revision: branch, tag or commit of the repo.
            names: the names to serve it under; ``model`` as given when empty.
            max_model_len: overrides what the files say, in tokens.

        Raises:
            TokenizerLoadError: no usable tokenizer.
            ModelLoadError: nothing of that name, a file that is not a JSON object, or no ``max_model_len`` to be found.
        """
        directory = _directory(str(model), revision)
        tokenizer = ModelTokenizer.load(directory)
        # Mistral's own layout, beside tekken.json, has the same in params.json.
        config = read_json_object(directory / "config.json") or read_json_object(directory / "params.json")
        generation_config = read_json_object(directory / "generation_config.json")
        primary, eos_ids = _eos_ids(tokenizer, generation_config, config)
        return cls(
            names=tuple(names) or (str(model),),
            root=str(model),
            directory=directory,
            tokenizer=tokenizer,
            config=config,
            generation_config=generation_config,
            vocab_size=max(_first_int(config, ("vocab_size",)) or 0, tokenizer.size),
            eos_token_id=primary,
            eos_token_ids=eos_ids,
            max_model_len=_max_model_len(max_model_len, config, tokenizer.config),
        )

    @property
    def name(self) -> str:
        """The name that responses carry when the request gives none."""
        return self.names[0]

    def resolve_name(self, requested: str | None) -> str:
        """The name to answer with.

        Raises:
            UnknownModelError: ``requested`` is given and is not a served name.
        """
        if requested is None or requested == "":
            return self.name
        if requested not in self.names:
            valid = ", ".join(f"`{name}`" for name in self.names)
            raise UnknownModelError(f"The model `{requested}` does not exist. Valid names: {valid}.", "model")
        return requested


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; ``{}`` when there is no such file.

    Raises:
        ModelLoadError: it cannot be read, or is not an object.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"cannot read {path}: it must hold a JSON object, not {type(value).__name__}")
    return value


def _directory(model: str, revision: str | None) -> Path:
    path = Path(model).expanduser()
    if model and path.is_dir():
        return path
    if model == DEMO_NAME:
        return DEMO_DIRECTORY
    if path.exists() or not REPO_ID.fullmatch(model):
        raise ModelLoadError(
            f"cannot load model {model!r}: give a directory that holds a tokenizer.json, a Hugging Face repo id "
            f"such as `Qwen/Qwen3-8B`, or `{DEMO_NAME}`"
        )
    try:
        return fetch_model_files(model, revision)
    except DerenderError:
        raise
    except Exception as error:  # the hub client raises errors of its HTTP library, of the file system and its own
        where = f" at revision {revision!r}" if revision else ""
        raise ModelLoadError(
            f"cannot load model {model!r}{where}: there is no such directory, and fetching it as a Hugging Face "
            f"repo failed: {error}"
        ) from error


def _eos_ids(
    tokenizer: ModelTokenizer, generation_config: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[int | None, frozenset[int]]:
    generation = _ids(generation_config.get("eos_token_id"))
    configured = next((ids for part in _configs(config) if (ids := _ids(part.get("eos_token_id")))), [])
    ranked = [*([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]), *generation]
    ranked = ranked or configured  # config.json is often older than generation_config.json, so it only fills a gap
    return (ranked[0] if ranked else None), frozenset(ranked)


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int) and not isinstance(item, bool)]


def _max_model_len(flag: int | None, config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    if flag is not None:
        if flag < 1:
            raise ModelLoadError(f"--max-model-len must be at least 1, not {flag}")
        return flag
    length = _first_int(config, LENGTH_KEYS) or _sane_length(tokenizer_config.get("model_max_length"))
    if length is None:
        raise ModelLoadError(
            "cannot tell the model's context length: config.json has no max_position_embeddings and "
            "tokenizer_config.json no usable model_max_length; give --max-model-len"
        )
    return length


def _configs(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    for key in NESTED_CONFIGS:
        if isinstance(nested := config.get(key), dict):
            yield from _configs(nested)


def _first_int(config: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    found = (_sane_length(part.get(key)) for part in _configs(config) for key in keys)
    return next((value for value in found if value is not None), None)


def _sane_length(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < SANE_LENGTH:
        return None
    return int(value) if value == int(value) else None
