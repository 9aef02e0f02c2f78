"""Chunkings and marker soup."""

import pytest

from derender_core import Delta, Special
from derender_core.testing import (
    all_cuts,
    cut_at,
    cut_char,
    cut_one,
    cut_pairs,
    cut_random,
    cut_special,
    find_markers,
    marker_soup,
    plain_text,
)

OUTPUT = Delta("Hi <a>x</a> [T]😀!", (Special(12, 15, 9),), final=True, finish_reason="length")
EMPTY = Delta("", final=True, finish_reason="stop")


@pytest.mark.parametrize("output", [OUTPUT, EMPTY, Delta("x", final=True)], ids=["text", "empty", "one character"])
def test_every_cut_is_the_output_again(output: Delta) -> None:
    cuts = list(all_cuts(output, seeds=20, pairs=True))
    assert len({cut.name for cut in cuts}) == len(cuts)
    for cut in cuts:
        assert "".join(delta.text for delta in cut.deltas) == output.text
        assert [delta.final for delta in cut.deltas] == [False] * (len(cut.deltas) - 1) + [True]
        assert [delta.finish_reason for delta in cut.deltas[:-1]] == [None] * (len(cut.deltas) - 1)
        assert cut.deltas[-1].finish_reason == output.finish_reason


def test_special_tokens_stay_whole_and_marked() -> None:
    for cut in all_cuts(OUTPUT, seeds=20, pairs=True):
        marked = [delta.text[mark.start : mark.end] for delta in cut.deltas for mark in delta.specials]
        assert marked == ["[T]"]


def test_one() -> None:
    assert cut_one(OUTPUT).deltas == (OUTPUT,)
    flushed = cut_one(OUTPUT, flush=True).deltas
    assert [delta.text for delta in flushed] == [OUTPUT.text, ""]


def test_char() -> None:
    assert [delta.text for delta in cut_char(OUTPUT).deltas] == [*"Hi <a>x</a> ", "[T]", "😀", "!", ""]


def test_special() -> None:
    assert [delta.text for delta in cut_special(OUTPUT).deltas] == ["Hi ", "<a>", "x", "</a>", " ", "[T]", "😀!"]
    assert [delta.text for delta in cut_special(Delta("a::b", final=True), ["::"]).deltas] == ["a", "::", "b"]


def test_pairs() -> None:
    assert [cut.deltas[0].text for cut in cut_pairs(Delta("abc", final=True))] == ["a", "ab"]


def test_at() -> None:
    assert [delta.text for delta in cut_at(Delta("abc", final=True), (1, 1, 2), "x").deltas] == ["a", "", "b", "c"]


def test_random_is_seeded() -> None:
    long = Delta("abcdefghij" * 20, final=True)
    assert cut_random(long, 3) == cut_random(long, 3)
    assert len({cut_random(long, seed).deltas for seed in range(10)}) == 10
    assert any(delta.text == "" for seed in range(10) for delta in cut_random(long, seed).deltas[:-1])


def test_soup_is_seeded_and_made_of_the_markers() -> None:
    soups = [marker_soup(seed, ["<mark>"], ["<call>{}</call>"]) for seed in range(200)]
    assert soups == [marker_soup(seed, ["<mark>"], ["<call>{}</call>"]) for seed in range(200)]
    assert len(set(soups)) > 150
    for piece in ("<mark>", "<call>", '"', "\\", "{", "\n", "😀"):
        assert any(piece in soup for soup in soups)
    assert any("<mar" in soup.replace("<mark>", "") for soup in soups)


def test_plain_text_has_nothing_to_look_for() -> None:
    for seed in range(50):
        text = plain_text(seed)
        assert text == text.strip()
        assert not set(text) & set('<>[]{}"\\`|')


def test_find_markers() -> None:
    assert find_markers(["<a>x</a><a>", "a < b > c <|x|> <｜y▁z｜>"]) == ("<a>", "</a>", "<|x|>", "<｜y▁z｜>")
