"""Vocabularies in tiktoken's format, such as Kimi's ``tiktoken.model``; ``tiktoken`` encodes (the extra ``tiktoken``).

The file has a token on each line: its bytes in base64, a blank, and its rank, which is its id. The tokens that encoding
takes as a whole are ``added_tokens_decoder`` of ``tokenizer_config.json``. The regular expression that cuts a text into
words is ``pat_str`` there. Where it is only in the model's own Python code it is read from its source, as a constant:
the code is never run.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from derender_core.byte_tokenizer import AddedText, ByteTokenizer, split_runs
from derender_core.errors import TokenizerLoadError

__all__ = ["find_tiktoken", "load_tiktoken"]

# Kimi's own tokenizer cuts texts there: what it gives behind such a cut is what the model was trained on.
RUN, CHUNK = 25_000, 400_000
RESERVED = 256
"""Kimi's ids behind the vocabulary for added tokens; those without a name are ``<|reserved_token_ID|>``."""


def find_tiktoken(directory: Path) -> Path | None:
    """The vocabulary in a model's directory: ``tiktoken.model``, or the only ``*.tiktoken``."""
    if (path := directory / "tiktoken.model").is_file():
        return path
    found = list(directory.glob("*.tiktoken"))
    return found[0] if len(found) == 1 else None


def load_tiktoken(path: Path, config: Mapping[str, Any]) -> ByteTokenizer:
    """Load a vocabulary.

    Args:
        path: the file.
        config: the content of ``tokenizer_config.json``.

    Raises:
        TokenizerLoadError: ``tiktoken`` is not installed, the file cannot be read, or there is no ``pat_str``.
    """
    try:
        import tiktoken
    except ImportError as error:
        raise TokenizerLoadError(
            f"cannot load a tokenizer: {path} needs tiktoken ({error}); pip install 'derender[tiktoken]'"
        ) from error
    ranks = _read_ranks(path)
    size = max(ranks.values(), default=-1) + 1
    added = _added_tokens(config, size)
    try:
        encoding = tiktoken.Encoding(
            path.name, pat_str=_pattern(path, config), mergeable_ranks=ranks, special_tokens={}
        )
    except ValueError as error:  # the pattern
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {error}") from error
    tokens = [b""] * size
    for token, token_id in ranks.items():
        tokens[token_id] = token

    def encode(text: str) -> list[int]:
        chunks = (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))
        pieces = (piece for chunk in chunks for piece in split_runs(chunk, RUN, blanks_only=False))
        return [token_id for piece in pieces for token_id in encoding.encode_ordinary(piece)]

    return ByteTokenizer(tokens, added, encode, prefix=_prefix(config, added))


def _read_ranks(path: Path) -> dict[bytes, int]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {error}") from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise TokenizerLoadError(
                f"cannot load a tokenizer: {path}, line {number}: a line must be a token's bytes in base64 and its rank"
            ) from error
    missing = [byte for byte in range(0x100) if bytes([byte]) not in ranks]
    if missing or min(ranks.values()) < 0 or len(set(ranks.values())) != len(ranks):
        what = f"there is no token for byte {missing[0]}" if missing else "ranks must be different, and not negative"
        raise TokenizerLoadError(f"cannot load a tokenizer: {path}: {what}")
    return ranks


def _added_tokens(config: Mapping[str, Any], size: int) -> dict[int, AddedText]:
    declared = config.get("added_tokens_decoder")
    added = {}
    for key, token in declared.items() if isinstance(declared, dict) else ():
        if key.isdecimal() and isinstance(token, dict) and isinstance(token.get("content"), str):
            added[int(key)] = AddedText(token["content"], bool(token.get("special")))
    if _is_kimi(config):
        for token_id in range(size, size + RESERVED):
            added.setdefault(token_id, AddedText(f"<|reserved_token_{token_id}|>", special=True))
    return added


def _prefix(config: Mapping[str, Any], added: Mapping[int, AddedText]) -> tuple[int, ...]:
    bos = config.get("bos_token")
    text = bos.get("content") if isinstance(bos, dict) else bos
    found = [token_id for token_id, token in added.items() if token.content == text]
    return tuple(found[:1]) if config.get("add_bos_token") is True else ()


def _is_kimi(config: Mapping[str, Any]) -> bool:
    return config.get("tokenizer_class") == "TikTokenTokenizer"


def _pattern(path: Path, config: Mapping[str, Any]) -> str:
    given = config.get("pat_str")
    if isinstance(given, str) and given:
        return given
    for source in sorted(path.parent.glob("tokenization_*.py")):
        try:
            tree = ast.parse(source.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError) as error:
            raise TokenizerLoadError(f"cannot load a tokenizer: {source}: {error}") from error
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and (pattern := _assigned_pattern(node)):
                return pattern
    raise TokenizerLoadError(
        f"cannot load a tokenizer: {path} does not say how texts are cut into words; put the model's "
        "tokenization_*.py beside it, or add its regular expression to tokenizer_config.json as pat_str"
    )


def _assigned_pattern(node: ast.Assign | ast.AnnAssign) -> str | None:
    """The text that is assigned to ``pat_str`` (``PAT_STR``): a constant, or constants joined by a constant."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {getattr(target, "id", getattr(target, "attr", "")).lower() for target in targets}
    if "pat_str" not in names or node.value is None:
        return None
    value: ast.expr = node.value
    try:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "join":
            joiner, parts = ast.literal_eval(value.func.value), ast.literal_eval(value.args[0])
            return str(joiner.join(parts))
        found = ast.literal_eval(value)
    except (ValueError, TypeError, AttributeError, IndexError):
        return None
    return found if isinstance(found, str) else None
