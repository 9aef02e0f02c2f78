"""Stop strings: the text is cut at the first, wherever the deltas are cut."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core import StopStrings


def push_all(stop: StopStrings, pieces: list[str], free: int = 0) -> tuple[str, str | None]:
    """Push one piece after the other; the text let out and the stop string found."""
    out, held, seen = "", "", 0
    longest = max(map(len, stop.strings))
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        ahead = max(0, free - seen + len(held))
        text, held, found = stop.push(held, piece, free=min(ahead, len(held) + len(piece)), final=last)
        seen += len(piece)
        out += text
        if found is not None:
            assert held == ""
            return out, found
        assert len(held) < longest
        assert not last or held == ""
    return out, None


@pytest.mark.parametrize(
    ("strings", "text", "expected", "found"),
    [
        (("END",), "some END more END", "some ", "END"),
        (("END",), "some EN", "some EN", None),
        (("END",), "END", "", "END"),
        (("aab",), "aaab", "a", "aab"),
        (("abab", "b"), "xabab", "xa", "b"),
        (("abc", "bc"), "xabcx", "x", "abc"),
        (("bc", "abc"), "xabcx", "x", "abc"),
        (("abcd", "bc"), "xabcdx", "xa", "bc"),
        (("🌊 日",), "a 🌊 🌊 日b", "a 🌊 ", "🌊 日"),
        (("\n\n",), "a\nb\n\n\nc", "a\nb", "\n\n"),
    ],
)
def test_first_to_end_wins_at_every_cut(strings: tuple[str, ...], text: str, expected: str, found: str | None) -> None:
    kept = StopStrings(strings, include=True)
    with_it = expected + (found or "")
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), min(count, 2)):
            edges = [0, *cuts, len(text)]
            pieces = [text[low:high] for low, high in pairwise(edges)]
            assert push_all(StopStrings(strings), pieces) == (expected, found)
            assert push_all(kept, pieces) == (with_it, found)
    assert push_all(StopStrings(strings), list(text)) == (expected, found)
    assert push_all(StopStrings(strings), [text, ""]) == (expected, found)


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=4), min_size=1, max_size=8),
    st.integers(0, 12),
    st.booleans(),
)
@settings(max_examples=500)
def test_any_cut_is_the_whole(strings: list[str], pieces: list[str], free: int, include: bool) -> None:
    stop = StopStrings(tuple(strings), include=include)
    assert push_all(stop, pieces, free) == push_all(stop, ["".join(pieces)], free)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.text("abc", max_size=20))
@settings(max_examples=300)
def test_is_what_a_search_of_the_whole_text_finds(strings: list[str], text: str) -> None:
    ends = [end for end in range(1, len(text) + 1) if any(text[:end].endswith(string) for string in strings)]
    out, found = push_all(StopStrings(tuple(strings)), [text])
    if ends:
        string = max((string for string in strings if text[: ends[0]].endswith(string)), key=len)
        assert (out, found) == (text[: ends[0] - len(string)], string)
    else:
        assert (out, found) == (text, None)


def test_what_ends_among_the_first_tokens_does_not_count() -> None:
    stop = StopStrings(("ab",))
    for free, expected in [(0, ""), (1, ""), (2, "ab"), (3, "ab"), (4, "abab")]:
        assert push_all(stop, ["abab"], free)[0] == expected
        assert push_all(stop, list("abab"), free)[0] == expected


def test_holds_only_what_may_become_a_stop_string() -> None:
    stop = StopStrings(("stop", "opera"))
    assert stop.push("", "a sto") == ("a ", "sto", None)
    assert stop.push("sto", "r") == ("stor", "", None)
    assert stop.push("", "an op") == ("an ", "op", None)
    assert stop.push("sto", "p") == ("", "", "stop")
    assert stop.push("op", "", final=True) == ("op", "", None)
