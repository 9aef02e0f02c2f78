"""The detokenizer on small hand-made tokenizers: what holds for any ids, and for any state from outside."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core.detokenize import Detokenizer
from derender_core.inputs import Special
from derender_core.tokenizer import ModelTokenizer

TABLED = ["byte_level", "llama2", "gemma", "strip_three", "regex", "metaspace", "metaspace_never", "metaspace_bytes"]
TABLED += ["no_decoder"]
WINDOWED = ["word_piece", "bpe_suffix", "ctc"]
SMALL = TABLED + WINDOWED


def decode_cut(
    detokenizer: Detokenizer, state: dict[str, Any], chunks: Sequence[Sequence[int]]
) -> tuple[list[str], list[Special], list[int]]:
    """Push the chunks, the state through JSON at each step; texts (the last is the flush), specials, lengths."""
    texts: list[str] = []
    specials: list[Special] = []
    lengths: list[int] = []
    for chunk in chunks:
        assert detokenizer.check_state(state) is None
        before = copy.deepcopy(state)
        decoded, after = detokenizer.push(state, chunk)
        assert state == before
        assert len(decoded.lengths) == len(chunk)
        assert sum(decoded.lengths) == len(decoded.text)
        at = sum(map(len, texts))
        specials += [Special(start + at, end + at, token_id) for start, end, token_id in decoded.specials]
        texts.append(decoded.text)
        lengths += decoded.lengths
        state = json.loads(json.dumps(after))
    texts.append(detokenizer.push(state, [], final=True)[0].text)
    return texts, specials, lengths


def cut(ids: Sequence[int], cuts: Sequence[int]) -> list[Sequence[int]]:
    places = [0, *sorted(place % (len(ids) + 1) for place in cuts), len(ids)]
    return [ids[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize("name", SMALL)
def test_the_decoder_is_recognised(name: str, small_tokenizers: dict[str, ModelTokenizer]) -> None:
    kind = small_tokenizers[name].table.shape.kind
    assert kind == ("bytes" if name == "byte_level" else "pieces" if name in TABLED else "other")


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=150)
@given(data=st.data())
def test_text_equals_decode_of_the_whole_at_any_cut(
    name: str, skip: bool, small_tokenizers: dict[str, ModelTokenizer], data: st.DataObject
) -> None:
    tokenizer = small_tokenizers[name]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=40))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=6))
    expected = tokenizer.tokenizer.decode(ids, skip_special_tokens=skip)
    detokenizer = Detokenizer(tokenizer, visible=frozenset() if skip else None)
    assert tokenizer.decode(ids, skip_special_tokens=skip) == expected
    one_by_one = decode_cut(detokenizer, detokenizer.start(None), [[token_id] for token_id in ids])
    assert "".join(one_by_one[0]) == expected
    at_cuts = decode_cut(detokenizer, detokenizer.start(None), cut(ids, cuts))
    assert "".join(at_cuts[0]) == expected
    assert at_cuts[1:] == one_by_one[1:]


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=150)
@given(data=st.data())
def test_with_a_prompt_the_text_is_what_the_output_adds(
    name: str, small_tokenizers: dict[str, ModelTokenizer], data: st.DataObject
) -> None:
    tokenizer = small_tokenizers[name]
    # Only the last few ids of a prompt are read, which a CTC or WordPiece decoder needs no more of either.
    prompt = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=12))
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=12))
    for visible in (frozenset(), None):
        detokenizer = Detokenizer(tokenizer, visible=visible)
        before = tokenizer.tokenizer.decode(prompt, skip_special_tokens=visible is not None)
        whole = tokenizer.tokenizer.decode(prompt + ids, skip_special_tokens=visible is not None)
        texts, _, _ = decode_cut(detokenizer, detokenizer.start(prompt), [[token_id] for token_id in ids])
        if whole.startswith(before) and (before or not prompt) and not before.endswith("\N{REPLACEMENT CHARACTER}"):
            assert before + "".join(texts) == whole


plain = st.one_of(st.integers(-3, 70), st.booleans(), st.none(), st.text("0123456789abcdefg\0é", max_size=8))
hexadecimal = st.one_of(st.binary(max_size=70), st.text(max_size=24).map(str.encode)).map(bytes.hex)
field_values = st.one_of(plain, hexadecimal, st.lists(st.one_of(st.integers(-1, 300), plain), max_size=34))
states = st.dictionaries(st.sampled_from(["b", "q", "m", "f", "s", "c", "p", "x"]), field_values, max_size=4)


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=300)
@given(state=states, data=st.data())
def test_a_state_that_passes_the_check_never_makes_push_raise(
    name: str, small_tokenizers: dict[str, ModelTokenizer], state: dict[str, Any], data: st.DataObject
) -> None:
    detokenizer = Detokenizer(small_tokenizers[name], visible=frozenset())
    if detokenizer.check_state(state) is None:
        ids = data.draw(st.lists(st.integers(0, small_tokenizers[name].size + 5), max_size=5))
        decoded, after = detokenizer.push(state, ids)
        assert isinstance(decoded.text, str)
        assert detokenizer.check_state(after) is None
        detokenizer.push(state, ids, final=True)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("byte_level", None),
        ("byte_level", []),
        ("byte_level", "{}"),
        ("byte_level", {"x": 1}),
        ("byte_level", {"b": 1}),
        ("byte_level", {"b": "zz"}),
        ("byte_level", {"b": ""}),
        ("byte_level", {"b": "41"}),
        ("byte_level", {"b": "ff"}),
        ("byte_level", {"b": "f09f8c8a"}),
        ("byte_level", {"b": "eda0"}),
        ("byte_level", {"b": "f0", "q": True}),
        ("byte_level", {"q": 1}),
        ("byte_level", {"b": "f0" * 1_000_000}),
        ("llama2", {"s": 2}),
        ("llama2", {"s": True}),
        ("llama2", {"f": 1}),
        ("llama2", {"b": "41" * 65}),
        ("llama2", {"b": "ff"}),
        ("llama2", {"b": "e4", "q": 2}),
        ("llama2", {"b": "41", "m": 1}),
        ("llama2", {"b": "41", "m": 2}),
        ("llama2", {"m": 3}),
        ("metaspace", {"f": 2}),
        ("metaspace", {"b": "e4"}),
        ("word_piece", {"c": 1}),
        ("word_piece", {"c": [0] * 33}),
        ("word_piece", {"p": [0] * 16}),
        ("word_piece", {"p": [-1]}),
        ("word_piece", {"p": [10**30]}),
        ("word_piece", {"p": [True]}),
        ("word_piece", {"p": [0], "q": 2}),
        ("word_piece", {"b": "41"}),
    ],
)
def test_a_wrong_state_is_refused_with_a_reason(
    name: str, state: object, small_tokenizers: dict[str, ModelTokenizer]
) -> None:
    assert Detokenizer(small_tokenizers[name], visible=frozenset()).check_state(state)
