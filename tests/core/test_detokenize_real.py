"""The detokenizer against ``Tokenizer.decode`` on the tokenizers of real models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core.byte_runs import HELD_BYTES
from derender_core.detokenize import Detokenizer
from derender_core.tokenizer import ModelTokenizer

pytestmark = pytest.mark.real_tokenizer

NAMES = ["qwen3", "llama3_1", "deepseek_v3", "gemma3", "llama2", "deepseek"]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

TEXTS = [
    "Hello, world!  Two  spaces,\n\n\ttabs, and it 's 12:30 .",
    "def f(x: int) -> str:\n    return f'{x!r:>10}'  # comment\n",
    '<think>\nWhat? </think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
    "快速的棕色狐狸跳过了懒狗。龘靐齉爩麤灪",
    "日本語の文章です。한국어 텍스트도 있어요.",
    "Καλημέρα κόσμε, здравствуй мир, שלום עולם, مرحبا بالعالم, नमस्ते दुनिया, สวัสดี",
    "🌊🦊👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿 e\u0301 \u200b\ufeff \u0378 𓀀𒐫 ￼",
    " leading, ▁ marks ▁▁, Ġ letters Ċ, <0x41> look-alikes, \N{REPLACEMENT CHARACTER} itself",
    "\x00\x01\x7f\x80\u0085\u00ad\u2028\ud7ff\U0010ffff",
]


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, real_tokenizer: Callable[[str], ModelTokenizer]) -> ModelTokenizer:
    return real_tokenizer(request.param)


def decode_cut(
    model: ModelTokenizer, ids: Sequence[int], cuts: Sequence[int], *, skip: bool, prompt: Sequence[int] | None = None
) -> str:
    """The joined texts of ``ids`` cut at ``cuts``, with the state through JSON at each cut."""
    detokenizer = Detokenizer(model, visible=frozenset() if skip else None)
    state: dict[str, Any] = detokenizer.start(prompt)
    text = ""
    places = [0, *sorted(place % (len(ids) + 1) for place in cuts), len(ids)]
    for start, end in pairwise(places):
        assert detokenizer.check_state(state) is None
        decoded, state = detokenizer.push(json.loads(json.dumps(state)), ids[start:end])
        assert sum(decoded.lengths) == len(decoded.text)
        assert len(json.dumps(state)) < 2 * HELD_BYTES + 30
        for special in decoded.specials:
            assert decoded.text[special.start : special.end] == model.token_text(special.token_id)
        text += decoded.text
    return text + detokenizer.push(state, [], final=True)[0].text


def mixed_ids(model: ModelTokenizer) -> st.SearchStrategy[list[int]]:
    """Ids of any kind; those that are parts of characters, and special ones, are as frequent as all others together.

    At most as many as a run of byte tokens that is held, so that the comparison is exact.
    """
    anything = st.integers(0, model.size - 1)
    parts = st.sampled_from(sorted(model.table.partial))
    specials = st.sampled_from(sorted(model.special_ids))
    characters = st.text(min_size=1, max_size=2).map(model.encode)
    one = st.one_of(
        anything.map(lambda at: [at]), parts.map(lambda at: [at]), specials.map(lambda at: [at]), characters
    )
    return st.lists(one, max_size=30).map(lambda lists: [at for ids in lists for at in ids][:HELD_BYTES])


cuts = st.lists(st.integers(0, HELD_BYTES), max_size=8)


@pytest.mark.parametrize("skip", [True, False])
def test_any_ids_at_any_cut(model: ModelTokenizer, skip: bool) -> None:
    @settings(max_examples=200)
    @given(ids=mixed_ids(model), cuts=cuts)
    def check(ids: list[int], cuts: list[int]) -> None:
        expected = model.tokenizer.decode(ids, skip_special_tokens=skip)
        assert model.decode(ids, skip_special_tokens=skip) == expected
        assert decode_cut(model, ids, range(len(ids)), skip=skip) == expected
        assert decode_cut(model, ids, cuts, skip=skip) == expected

    check()


def test_any_parts_of_characters_at_any_cut(model: ModelTokenizer) -> None:
    @settings(max_examples=200)
    @given(ids=st.lists(st.sampled_from(sorted(model.table.partial)), max_size=HELD_BYTES), cuts=cuts)
    def check(ids: list[int], cuts: list[int]) -> None:
        expected = model.tokenizer.decode(ids)
        assert decode_cut(model, ids, range(len(ids)), skip=True) == expected
        assert decode_cut(model, ids, cuts, skip=True) == expected

    check()


def test_real_text_at_any_cut(model: ModelTokenizer) -> None:
    every = "".join(TEXTS)
    for text in [*TEXTS, every * 5]:
        ids = model.encode(text)
        for skip in (True, False):
            expected = model.tokenizer.decode(ids, skip_special_tokens=skip)
            assert model.decode(ids, skip_special_tokens=skip) == expected
            for step in (1, 2, 3, 7, 100):
                assert decode_cut(model, ids, range(0, len(ids), step), skip=skip) == expected
    # Not a comparison of two empty strings: most of the text must be there.
    assert all(text.strip() in model.decode(model.encode(text), skip_special_tokens=False) for text in TEXTS[:2])


@pytest.mark.parametrize("skip", [True, False])
def test_any_prompt_before_any_output(model: ModelTokenizer, skip: bool) -> None:
    @settings(max_examples=200)
    @given(ids=mixed_ids(model), at=st.integers(0, HELD_BYTES), cuts=cuts)
    def check(ids: list[int], at: int, cuts: list[int]) -> None:
        prompt, output = ids[:at], ids[at:]
        before = model.tokenizer.decode(prompt, skip_special_tokens=skip)
        whole = model.tokenizer.decode(ids, skip_special_tokens=skip)
        if whole.startswith(before) and (before or not prompt) and not before.endswith(REPLACEMENT):
            assert before + decode_cut(model, output, cuts, skip=skip, prompt=prompt) == whole

    check()


def test_real_text_behind_any_part_of_itself(model: ModelTokenizer) -> None:
    for text in TEXTS:
        ids = model.encode(text)
        parts = [model.token_bytes(token_id) for token_id in ids]
        whole = b"".join(parts).decode()
        for at in range(1, len(ids) + 1):
            # A prompt may end inside a character: all of that character is the output's.
            before = b"".join(parts[:at]).decode(errors="ignore")
            assert before + decode_cut(model, ids[at:], range(len(ids)), skip=False, prompt=ids[:at]) == whole


def test_every_single_id_alone_and_behind_a_letter(model: ModelTokenizer) -> None:
    letter = model.encode("a")
    for token_id in range(model.size):
        assert model.decode([token_id], skip_special_tokens=False) == model.tokenizer.decode(
            [token_id], skip_special_tokens=False
        )
        ids = [*letter, token_id, *letter]
        assert model.decode(ids) == model.tokenizer.decode(ids)


def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(model: ModelTokenizer) -> None:
    for text in TEXTS:
        ids = model.encode(text)
        whole = b"".join(map(model.token_bytes, ids))
        expected = model.tokenizer.decode(ids, skip_special_tokens=False).encode()
        assert whole in (expected, b" " + expected)  # the start of a sequence may be stripped
