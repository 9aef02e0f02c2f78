"""A model's tokenizer as its files describe it: vocabulary, special tokens, names of the special roles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from derender_core.byte_tokenizer import AddedText, ByteTokenizer
from derender_core.detokenize import Detokenizer
from derender_core.errors import TokenizerLoadError
from derender_core.inputs import ENDING, Prompt
from derender_core.tekken import TEKKEN_FILE, load_tekken
from derender_core.tiktoken_files import find_tiktoken, load_tiktoken
from derender_core.token_table import TokenTable, build_table, tokens_by_id

__all__ = ["ModelTokenizer"]

KEPT_ENDINGS = 256
"""Of how many endings of prompts the texts are kept."""


class ModelTokenizer:
    """A ``tokenizers.Tokenizer``, or a vocabulary of bytes, with what the configuration beside it says.

    Args:
        tokenizer: the tokenizer. One of ``tokenizers`` becomes this object's own: tokens that only ``config`` names are
            added to it, and truncation and padding are turned off.
        config: the content of ``tokenizer_config.json``; ``{}`` when there is none.

    Attributes:
        size: the highest token id + 1, added tokens included.
        added_ids: ids of all added tokens, special or not.
        special_ids: ids that decoding with ``skip_special_tokens`` leaves out.
        table: the text of each id.
        bos_token, eos_token, pad_token: as the configuration names them, or None.
        bos_token_id, eos_token_id, pad_token_id: their ids, or None.
    """

    def __init__(self, tokenizer: Tokenizer | ByteTokenizer, config: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.config: dict[str, Any] = dict(config or {})
        if isinstance(tokenizer, ByteTokenizer):
            tokenizer = self.tokenizer = _with_named_specials(tokenizer, self.config)
            added: Mapping[int, AddedToken | AddedText] = tokenizer.added
            self.size: int = tokenizer.size
        else:
            # Left from training in some tokenizer.json; a prompt is neither cut nor filled up.
            tokenizer.no_truncation()
            tokenizer.no_padding()
            _add_missing_tokens(tokenizer, self.config)
            added = tokenizer.get_added_tokens_decoder()
            tokens = tokens_by_id(tokenizer)
            self.size = len(tokens)
        self.added_ids: frozenset[int] = frozenset(added)
        self.special_ids: frozenset[int] = frozenset(token_id for token_id, token in added.items() if token.special)
        self.table: TokenTable = (
            tokenizer.table()
            if isinstance(tokenizer, ByteTokenizer)
            else build_table(tokenizer, tokens, self.special_ids)
        )
        self.bos_token, self.bos_token_id = self._named("bos_token")
        self.eos_token, self.eos_token_id = self._named("eos_token")
        self.pad_token, self.pad_token_id = self._named("pad_token")
        self._added: dict[str, int] = {token.content: token_id for token_id, token in added.items()}
        self._detokenizers: dict[frozenset[int] | None, Detokenizer] = {}
        self._ending = lru_cache(KEPT_ENDINGS)(partial(self.decode, skip_special_tokens=False))

    @classmethod
    def load(cls, directory: Path | str) -> ModelTokenizer:
        """Load a model's tokenizer.

        It is ``tokenizer.json``, else ``tekken.json`` (with the extra ``mistral``), else a vocabulary in tiktoken's
        format (with the extra ``tiktoken``); beside it ``tokenizer_config.json`` and ``special_tokens_map.json``.

        Raises:
            TokenizerLoadError: the directory or the tokenizer is missing, or so is the extra, or a file cannot be read.
        """
        directory = Path(directory)
        names = _read_json(directory / "special_tokens_map.json")
        config = names | {
            key: value for key, value in _read_json(directory / "tokenizer_config.json").items() if value is not None
        }
        if (path := directory / "tokenizer.json").is_file():
            try:
                return cls(Tokenizer.from_file(str(path)), config)
            except Exception as error:  # the library raises bare Exception
                raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {error}") from error
        if (path := directory / TEKKEN_FILE).is_file():
            tekken, roles = load_tekken(path)
            return cls(tekken, roles | config)
        if found := find_tiktoken(directory):
            return cls(load_tiktoken(found, config), config)
        what = "has no tokenizer.json" if directory.is_dir() else "is not a directory"
        raise TokenizerLoadError(
            f"cannot load a tokenizer: {directory} {what}; give the directory of a model with a tokenizer.json, a "
            "tekken.json or a tiktoken.model"
        )

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Token ids of ``text``. Special tokens written out in it become their ids.

        Args:
            text: any text. Lone surrogates, which JSON can smuggle in, count as U+FFFD.
            add_special_tokens: whether to add what the tokenizer puts around a sequence, such as BOS.
        """
        return list(self.tokenizer.encode(_well_formed(text), add_special_tokens=add_special_tokens).ids)

    def token_id(self, text: str) -> int | None:
        """The id of a token that is exactly ``text``, or None. Markers are found at once, other texts by a search."""
        text = _well_formed(text)
        token_id = self.tokenizer.token_to_id(text)
        if token_id is not None and self.token_text(token_id) == text:
            return int(token_id)
        if text in self.table.texts:
            return self.table.texts.index(text)
        data = text.encode()
        return next((token_id for token_id, part in self.table.partial.items() if part == data), None)

    @property
    def added_texts(self) -> frozenset[str]:
        """The texts of all added tokens."""
        return frozenset(self._added)

    def added_token_ids(self, texts: Iterable[str]) -> frozenset[int]:
        """The ids of those of ``texts`` that are added tokens. A marker may be ordinary text in a vocabulary."""
        return frozenset(self._added[text] for text in texts if text in self._added)

    def token_bytes(self, token_id: int) -> bytes:
        """The exact bytes that a token stands for; ``b""`` for an id that the tokenizer does not know."""
        if not 0 <= token_id < self.size:
            return b""
        if self.table.shape.kind == "other":
            return str(self.tokenizer.decode([token_id], skip_special_tokens=False)).encode()
        text = self.table.texts[token_id]
        if text is None:
            text = self.table.specials.get(token_id, "")
        return self.table.partial.get(token_id) or text.encode()

    def token_text(self, token_id: int) -> str:
        """The bytes of a token as text; what is no character by itself becomes U+FFFD."""
        return self.token_bytes(token_id).decode(errors="replace")

    def prompt(self, token_ids: Sequence[int]) -> Prompt:
        """The prompt that ``token_ids`` stand for, special tokens written out. Decodes only as much as is asked for."""

        def tail(count: int) -> tuple[str, bool]:
            last = token_ids[-count:]
            text = self._ending(tuple(last)) if count <= ENDING else self.decode(last, skip_special_tokens=False)
            return text, count >= len(token_ids)

        return Prompt(tail)

    def detokenizer(self, visible: frozenset[int] | None) -> Detokenizer:
        """The detokenizer that keeps these special tokens; None keeps all. Made once per set."""
        found = self._detokenizers.get(visible)
        if found is None:
            found = self._detokenizers[visible] = Detokenizer(self, visible=visible)
        return found

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of a whole sequence.

        Raises:
            TokenIdError: a negative id.
        """
        detokenizer = self.detokenizer(frozenset() if skip_special_tokens else None)
        return detokenizer.push(detokenizer.start(None), token_ids, final=True)[0].text

    def _named(self, role: str) -> tuple[str | None, int | None]:
        token = _content(self.config.get(role))
        token_id = None if token is None else self.tokenizer.token_to_id(token)
        return token, token_id


def _well_formed(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, as the library refuses them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: it must be a JSON object")
    return value


def _content(token: object) -> str | None:
    """The text of a token that is written as a string or as a serialised AddedToken."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _add_missing_tokens(tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
    """Add the tokens that only the configuration knows, as ``transformers`` does when it loads a tokenizer.

    Those of ``added_tokens_decoder`` have ids; one that would not get its own id is left out. Those that are named for
    a role are special whatever ``tokenizer.json`` says.
    """
    declared = config.get("added_tokens_decoder")
    by_id = (
        {int(key): token for key, token in declared.items() if key.isdecimal()} if isinstance(declared, dict) else {}
    )
    for token_id, token in sorted(by_id.items(), key=lambda item: item[0]):
        content = _content(token) if isinstance(token, dict) else None
        if content and tokenizer.token_to_id(content) is None and token_id == tokenizer.get_vocab_size():
            flags = {flag: bool(token.get(flag)) for flag in ("lstrip", "rstrip", "normalized", "single_word")}
            add = tokenizer.add_special_tokens if token.get("special") else tokenizer.add_tokens
            add([AddedToken(content, special=bool(token.get("special")), **flags)])
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    unflagged = [token for token in _named_tokens(config) if token not in special]
    known = [token for token in unflagged if token and tokenizer.token_to_id(token) is not None]
    if known:
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in known])


def _with_named_specials(tokenizer: ByteTokenizer, config: Mapping[str, Any]) -> ByteTokenizer:
    """The tokens that are named for a role are special, as above. Others than those of the vocabulary are left out."""
    special = set(_named_tokens(config))
    added = {
        token_id: AddedText(token.content, token.special or token.content in special)
        for token_id, token in tokenizer.added.items()
    }
    return tokenizer if added == tokenizer.added else replace(tokenizer, added=added)


def _named_tokens(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        if key.endswith("_token") and (token := _content(value)):
            yield token
    for key in ("additional_special_tokens", "extra_special_tokens"):
        listed = config.get(key)
        for item in listed.values() if isinstance(listed, dict) else listed if isinstance(listed, list) else ():
            if token := _content(item):
                yield token
