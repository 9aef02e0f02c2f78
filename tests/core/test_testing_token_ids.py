"""Cases that are given as token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from derender_core import ModelTokenizer, Pipeline, Special, load_parser
from derender_core.testing import Case, CaseError, assert_case, assert_laws, load_cases, open_case

TOOLS = [{"name": "ring", "parameters": {"type": "object"}}]
TEXT = '<think>Hm.</think>é<tool_call>{"name": "ring", "arguments": {"note": "🔔"}}</tool_call><|im_end|>'
EXPECTED = {
    "content": "é",
    "reasoning_content": "Hm.",
    "tool_calls": [{"name": "ring", "arguments": {"note": "🔔"}}],
}
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")
NAMES = {"tool": "hermes", "reasoning": "qwen3"}


@pytest.fixture
def tokenizer() -> ModelTokenizer:
    """One id a byte, and the markers."""
    alphabet = sorted(ByteLevel.alphabet())
    made = Tokenizer(BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = ByteLevelDecoder()
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in MARKERS])
    return ModelTokenizer(made)


def case(made: ModelTokenizer, **keys: Any) -> Case:
    base = {"id": "a", "parsers": NAMES, "tools": TOOLS, "tokenizer": "bytes", "expected": EXPECTED}
    return Case.model_validate({**base, "token_ids": made.encode(TEXT), **keys})


def test_ids_are_read_as_a_stream_reads_them(tokenizer: ModelTokenizer) -> None:
    opened = open_case(case(tokenizer), tokenizer=tokenizer)
    assert opened.output.text == TEXT.removesuffix("<|im_end|>")  # no parser asks for it
    assert opened.request.has_token_ids
    marked = [opened.output.text[mark.start : mark.end] for mark in opened.output.specials]
    assert marked == ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    assert isinstance(opened.output.specials[0], Special)


def test_they_hold_at_all_cuts_those_of_ids_included(tokenizer: ModelTokenizer) -> None:
    one = case(tokenizer)
    assert_case(one, tokenizer=tokenizer, pairs=True)
    cuts = {cut.name: cut for cut in open_case(one, tokenizer=tokenizer).cuts(seeds=2)}
    assert {"token", "groups of ids, seed 0", "groups of ids, seed 1"} <= set(cuts)
    for cut in cuts.values():
        assert "".join(delta.text for delta in cut.deltas) == TEXT.removesuffix("<|im_end|>")
    assert "🔔" in [delta.text for delta in cuts["token"].deltas]  # four ids, one character, never a half


def test_the_laws_take_them(tokenizer: ModelTokenizer) -> None:
    assert_laws(load_parser("tool", "hermes"), [case(tokenizer)], soup=4, tokenizer=tokenizer)


def test_a_look_alike_that_no_token_made_is_not_marked(tokenizer: ModelTokenizer) -> None:
    ids = [token for char in "<think>" for token in tokenizer.encode(char)]
    opened = open_case(case(tokenizer, token_ids=ids), tokenizer=tokenizer)
    assert (opened.output.text, opened.output.specials) == ("<think>", ())
    assert opened.request.has_token_ids


def test_the_tokenizer_beside_the_corpus_is_found(tokenizer: ModelTokenizer, tmp_path: Path) -> None:
    (tmp_path / "tokenizers" / "bytes").mkdir(parents=True)
    tokenizer.tokenizer.save(str(tmp_path / "tokenizers" / "bytes" / "tokenizer.json"))
    one = case(tokenizer, tokenizer="tokenizers/bytes")
    file = tmp_path / "golden.jsonl"
    file.write_text(one.model_dump_json(exclude_defaults=True) + "\n", encoding="utf-8")
    (read,) = load_cases(file)
    assert_case(read)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"output": "other"}, "give the tokenizer 'bytes'"),
        ({"token_ids": [1, 10**6]}, "token id 1000000 is none of this tokenizer"),
        ({"token_ids": [-1]}, "token id -1 is none"),
    ],
)
def test_another_tokenizer_is_noticed(tokenizer: ModelTokenizer, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(CaseError, match=says):
        assert_case(case(tokenizer, **keys), tokenizer=tokenizer)


def test_without_a_tokenizer_it_is_asked_for(tokenizer: ModelTokenizer) -> None:
    with pytest.raises(CaseError, match="--tokenizer DIR"):
        assert_case(case(tokenizer), Pipeline())


def test_no_ids_are_no_output(tokenizer: ModelTokenizer) -> None:
    assert_case(case(tokenizer, token_ids=[], expected={}), tokenizer=tokenizer)
