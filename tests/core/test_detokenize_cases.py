"""The detokenizer on small hand-made tokenizers: single cases, most of them from public bug reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models

from derender_core.detokenize import Decoded, Detokenizer
from derender_core.errors import TokenIdError
from derender_core.inputs import Special
from derender_core.tokenizer import ModelTokenizer

BOS, EOS, THINK, PLAIN = "<s>", "</s>", "</think>", "<plain>"
SMALL = ["byte_level", "llama2", "gemma", "metaspace", "no_decoder", "word_piece", "bpe_suffix", "ctc"]


def decode_cut(
    detokenizer: Detokenizer, state: dict[str, Any], chunks: Sequence[Sequence[int]]
) -> tuple[list[str], list[Special], list[int]]:
    """Push the chunks, the state through JSON at each step; texts (the last is the flush), specials, lengths."""
    texts: list[str] = []
    specials: list[Special] = []
    lengths: list[int] = []
    for chunk in chunks:
        decoded, state = detokenizer.push(json.loads(json.dumps(state)), chunk)
        at = sum(map(len, texts))
        specials += [Special(start + at, end + at, token_id) for start, end, token_id in decoded.specials]
        texts.append(decoded.text)
        lengths += decoded.lengths
    return [*texts, detokenizer.push(state, [], final=True)[0].text], specials, lengths


def ids_of(tokenizer: ModelTokenizer, *tokens: str) -> list[int]:
    ids = [tokenizer.tokenizer.token_to_id(token) for token in tokens]
    assert None not in ids
    return ids


def ids_of_bytes(tokenizer: ModelTokenizer, *tokens: bytes) -> list[int]:
    ids = [next(at for at in range(tokenizer.size) if tokenizer.token_bytes(at) == token) for token in tokens]
    assert [tokenizer.token_bytes(at) for at in ids] == list(tokens)
    return ids


def test_a_two_byte_character_in_two_tokens_comes_out_once(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    tokenizer = make_byte_level("á".encode() + b"b")
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    ids = ids_of_bytes(tokenizer, b" ", b"\xc4", b"\x8f", b"\xc3\xa1b")
    texts, _, lengths = decode_cut(detokenizer, detokenizer.start(None), [[token_id] for token_id in ids])
    assert texts == [" ", "", "ď", "áb", ""]
    assert lengths == [1, 0, 1, 2]


def test_a_character_straight_behind_a_marker_comes_out_whole(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    tokenizer = make_byte_level(b"ok", b"\xf0\x9f", b" Sea ")
    marker = tokenizer.token_id(THINK)
    assert marker is not None
    detokenizer = Detokenizer(tokenizer, visible=frozenset({marker}))
    ids = [*ids_of_bytes(tokenizer, b"ok"), marker, *ids_of_bytes(tokenizer, b"\xf0\x9f", b"\x8c", b"\x8a", b" Sea ")]
    texts, specials, lengths = decode_cut(detokenizer, detokenizer.start(None), [[token_id] for token_id in ids])
    assert texts == ["ok", THINK, "", "", "🌊", " Sea ", ""]
    assert specials == [Special(2, 10, marker)]
    assert lengths == [2, 8, 0, 0, 1, 5]


def test_an_output_that_ends_inside_a_character_ends_with_one_replacement(
    make_byte_level: Callable[..., ModelTokenizer],
) -> None:
    tokenizer = make_byte_level(b"ok ")
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    ids = ids_of_bytes(tokenizer, b"ok ", b"\xf0", b"\x9f")
    texts, _, lengths = decode_cut(detokenizer, detokenizer.start(None), [[token_id] for token_id in ids])
    assert texts == ["ok ", "", "", "\N{REPLACEMENT CHARACTER}"]
    assert lengths == [3, 0, 0]
    decoded, state = detokenizer.push({}, ids, final=True)
    assert decoded == Decoded("ok \N{REPLACEMENT CHARACTER}", (), [3, 0, 0])
    assert state == {}


def test_every_word_keeps_its_space_except_at_the_start_of_a_sequence(
    small_tokenizers: dict[str, ModelTokenizer],
) -> None:
    tokenizer = small_tokenizers["llama2"]
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    ids = ids_of(tokenizer, "▁Hello", "▁big", "▁world")
    chunks = [[token_id] for token_id in ids]
    prompt = ids_of(tokenizer, BOS, "▁Say", ":")
    assert decode_cut(detokenizer, detokenizer.start(prompt), chunks)[0] == [" Hello", " big", " world", ""]
    assert decode_cut(detokenizer, detokenizer.start(None), chunks)[0] == ["Hello", " big", " world", ""]
    # A prompt of which nothing is seen is no start of a text.
    assert decode_cut(detokenizer, detokenizer.start(prompt[:1]), chunks)[0] == ["Hello", " big", " world", ""]
    with_bos = Detokenizer(tokenizer, visible=None)
    assert decode_cut(with_bos, with_bos.start(prompt[:1]), chunks)[0] == [" Hello", " big", " world", ""]


def test_spaces_before_punctuation_are_never_cleaned_up(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    small = make_byte_level(b"x", b" !=", b" y", b" ,", b" it", b" 's")
    tokenizer = ModelTokenizer(small.tokenizer, {"clean_up_tokenization_spaces": True})
    ids = ids_of_bytes(tokenizer, b"x", b" !=", b" y", b" ,", b" it", b" 's")
    assert tokenizer.decode(ids) == "x != y , it 's"


def test_only_visible_special_tokens_are_text(make_byte_level: Callable[..., ModelTokenizer]) -> None:
    tokenizer = make_byte_level(b"Bon", b"jour")
    bon, jour = ids_of_bytes(tokenizer, b"Bon", b"jour")
    bos, eos, marker, added = ids_of(tokenizer, BOS, EOS, THINK, PLAIN)
    ids = [bon, bos, jour, marker, added, eos]
    seen = {
        visible: Detokenizer(tokenizer, visible=visible).push({}, ids)[0]
        for visible in (None, frozenset(), frozenset({marker}), frozenset({added}))
    }
    assert seen[None].text == "Bon<s>jour</think><plain></s>"
    assert [special.token_id for special in seen[None].specials] == [bos, marker, added, eos]
    assert seen[frozenset()] == Decoded("Bonjour<plain>", (), [3, 0, 4, 0, 7, 0])
    assert seen[frozenset({marker})] == Decoded("Bonjour</think><plain>", ((7, 15, marker),), [3, 0, 4, 8, 7, 0])
    assert seen[frozenset({added})] == Decoded("Bonjour<plain>", ((7, 14, added),), [3, 0, 4, 0, 7, 0])
    for decoded in seen.values():
        assert all(
            decoded.text[start:end] == tokenizer.token_text(token_id) for start, end, token_id in decoded.specials
        )


@pytest.mark.parametrize("name", SMALL)
def test_a_negative_id_is_refused_by_name(name: str, small_tokenizers: dict[str, ModelTokenizer]) -> None:
    detokenizer = Detokenizer(small_tokenizers[name], visible=frozenset())
    with pytest.raises(TokenIdError, match="-17") as caught:
        detokenizer.push(detokenizer.start(None), [1, -17])
    assert caught.value.param == "token_ids"
    with pytest.raises(TokenIdError, match="-17") as caught:
        detokenizer.start([1, -17])
    assert caught.value.param == "prompt_token_ids"


@pytest.mark.parametrize("name", SMALL)
def test_ids_that_the_tokenizer_does_not_know_give_nothing(
    name: str, small_tokenizers: dict[str, ModelTokenizer]
) -> None:
    tokenizer = small_tokenizers[name]
    detokenizer = Detokenizer(tokenizer, visible=None)
    unknown = [tokenizer.size, tokenizer.size + 1, 2**40]
    decoded, state = detokenizer.push(detokenizer.start(unknown), [*unknown, 3, *unknown], final=True)
    assert decoded.text == tokenizer.tokenizer.decode([3], skip_special_tokens=False)
    assert decoded.lengths[:3] == decoded.lengths[4:] == [0, 0, 0]
    assert state == {}


def test_an_id_without_a_token_does_not_break_a_character() -> None:
    model = models.WordLevel({"<0xC3>": 0, "<0xA9>": 2, "a": 4, "<unk>": 5}, unk_token="<unk>")
    inner = Tokenizer(model)
    inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = ModelTokenizer(inner)
    assert tokenizer.decode([0, 1, 2, 3, 4]) == tokenizer.tokenizer.decode([0, 1, 2, 3, 4]) == "éa"


def test_a_character_begun_in_the_prompt_comes_out_whole_or_not_at_all(
    small_tokenizers: dict[str, ModelTokenizer],
) -> None:
    for name in ("byte_level", "llama2", "gemma"):
        tokenizer = small_tokenizers[name]
        detokenizer = Detokenizer(tokenizer, visible=frozenset())
        first, second, third, fourth = ids_of_bytes(tokenizer, b"\xf0", b"\x9f", b"\x8c", b"\x8a")
        (a,) = ids_of(tokenizer, "a")
        state = detokenizer.start([a, first, second])
        assert "".join(decode_cut(detokenizer, state, [[third], [fourth], [a]])[0]) == "🌊a"
        assert "".join(decode_cut(detokenizer, state, [])[0]) == ""
        assert "".join(decode_cut(detokenizer, state, [[a], [a]])[0]) == "aa"


def test_a_character_begun_in_the_prompt_is_found_behind_dropped_tokens(
    small_tokenizers: dict[str, ModelTokenizer],
) -> None:
    tokenizer = small_tokenizers["byte_level"]
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    first, second, third = ids_of_bytes(tokenizer, b"\xe4", b"\xbd", b"\xa0")
    eos = tokenizer.token_id(EOS)
    assert eos is not None
    assert detokenizer.push(detokenizer.start([first, second, eos]), [third])[0].text == "你"


# First and last bytes of every row of the table of well-formed UTF-8, and their neighbours.
BORDER_BYTES = bytes.fromhex("417f808f909fa0bfc1c2dfe0e1ecedeeeff0f1f3f4f5ff")


@pytest.mark.parametrize("name", ["byte_level", "llama2"])
def test_all_borders_of_utf8_are_those_of_the_library(name: str, small_tokenizers: dict[str, ModelTokenizer]) -> None:
    tokenizer = small_tokenizers[name]
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    ids = ids_of_bytes(tokenizer, *(bytes([byte]) for byte in BORDER_BYTES))
    (a,) = ids_of(tokenizer, "a")
    for length in (1, 2, 3):
        for some in product(ids, repeat=length):
            for each in (list(some), [*some, a]):
                texts = decode_cut(detokenizer, {}, [[token_id] for token_id in each])[0]
                assert "".join(texts) == tokenizer.decode(each) == tokenizer.tokenizer.decode(each)


def test_a_run_of_byte_tokens_is_judged_as_a_whole(small_tokenizers: dict[str, ModelTokenizer]) -> None:
    tokenizer = small_tokenizers["llama2"]
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    run = ids_of_bytes(tokenizer, *(bytes([byte]) for byte in "你好".encode()))
    (dot,) = ids_of(tokenizer, ".")
    assert decode_cut(detokenizer, {}, [run, [dot]])[0] == ["", "你好.", ""]
    assert decode_cut(detokenizer, {}, [[*run[:4], dot]])[0] == ["\N{REPLACEMENT CHARACTER}" * 4 + ".", ""]
    # Invalid already: nothing to wait for.
    assert decode_cut(detokenizer, {}, [[*run[:4], run[0]], [run[0]]])[0] == [
        "\N{REPLACEMENT CHARACTER}" * 5,
        "\N{REPLACEMENT CHARACTER}",
        "",
    ]


def test_a_long_valid_run_of_byte_tokens_is_not_held_to_its_end(small_tokenizers: dict[str, ModelTokenizer]) -> None:
    tokenizer = small_tokenizers["llama2"]
    detokenizer = Detokenizer(tokenizer, visible=frozenset())
    text = "很长的一段文字全都是用字节写成的因为词表里没有这些字" * 3
    ids = ids_of_bytes(tokenizer, *(bytes([byte]) for byte in text.encode()))
    texts, _, _ = decode_cut(detokenizer, {}, [[token_id] for token_id in ids])
    assert "".join(texts) == text == tokenizer.tokenizer.decode(ids)
    assert texts[:64] == [""] * 64
    assert texts[64] == text[:21]  # byte 65 proves the 21 characters before it
    assert texts[65:-1] == ["" if at % 3 != 2 else text[at // 3] for at in range(65, len(ids))]
    # The deliberate difference: what came out stays, and only what follows is replaced.
    broken = decode_cut(detokenizer, {}, [[token_id] for token_id in [*ids[:67], ids[0], *ids_of(tokenizer, ".")]])[0]
    assert "".join(broken) == text[:22] + "\N{REPLACEMENT CHARACTER}" * 2 + "."
    assert tokenizer.decode([*ids[:67], ids[0]]) == "".join(broken)[:-1]
