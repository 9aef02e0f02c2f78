"""The JSON scanner: where a value ends, at every cut, and exactly what ``json`` accepts."""

from __future__ import annotations

import json
import re
from itertools import pairwise, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from derender_core import json_scan
from derender_core.json_scan import (
    BAD,
    DONE,
    MAX_DEPTH,
    START,
    WINDOW,
    check_scan_state,
    depth,
    in_string,
    scan_json,
)

VALUES = [
    "{}",
    "[]",
    '""',
    "0",
    "-0.5e+10",
    "12E3",
    "true",
    "false",
    "null",
    '{"a": {"b": [1, -2.5, "x\\u00e9\\n\\"", true, null, {}], "c": []}, "é": "日本 🌊"}',
    ' \t\r\n[ 1 , [ ] , { "k" : "v" } ] ',
    '{"text": "</tool_call> { [ , : \\\\"}',
    '"raw\nnew\x00line"',
    '["\\ud83c\\udf0a", "\\ud83c"]',
    "123456789012345678901234567890.000",
]
BROKEN = [
    "{", "[", '"', "-", "{]", "[}", "[1,]", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{'a': 1}", "{a: 1}", '{"a" 1}',
    "[1 2]", "tru",
    "trux", "nul ", "NaN", "-Infinity", "01", "1.", "1.e5", "1e", "1e+", "+1", ".5", "- 1", '"\\x"', '"\\u12g4"',
    '"\\u+123"', "[1]]", "{}{}", "\ufeff{}", "\xa01", "[1\xa0]", "٣", "1٣", "}", ",", ":", "1_0", "0x1", "[,1]",
]  # fmt: skip

soup = st.text(st.sampled_from('{}[]",:\\ \n\t-+.eE0123456789truefalsn/ubé🌊\x00\x1f\x7f\u2028\ufeff\xa0'), max_size=24)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """JSON, JSON with a scratch, and what only looks like it."""
    if draw(st.booleans()):
        return draw(soup)
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(soup)[:3] + text[at + draw(st.integers(0, 2)) :]
    return text


def scan_cut(text: str, cuts: list[int], stop: int = 0) -> tuple[int, str, str]:
    """Scan in pieces, where each piece is all that came so far; where it stopped, the state, and ``out`` joined."""
    at, state, out = 0, START, list[str]()
    for end in [*cuts, len(text)]:
        at, state = scan_json(text[:end], at, state, stop, out)
        assert check_scan_state(state), state
    return at, state, "".join(out)


def accepts(text: str) -> bool:
    """Whether the scanner takes the whole text for one value. A number ends only where something else follows."""
    at, state = scan_json(text + " ", 0, START)
    return state == DONE and not text[at:].strip(" \t\r\n")


def json_accepts(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, strict=False, parse_constant=refuse)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", VALUES)
def test_no_cut_matters(text: str) -> None:
    text += " tail"
    once = scan_cut(text, [])
    assert once[1] == DONE
    assert scan_cut(text, list(range(1, len(text)))) == once
    for at in range(len(text)):
        assert scan_cut(text, [at]) == once


@pytest.mark.parametrize("text", BROKEN)
def test_no_cut_matters_for_what_is_no_json(text: str) -> None:
    once = scan_cut(text, [])
    for at in range(len(text)):
        assert scan_cut(text, [at]) == once
    assert not accepts(text)
    assert not json_accepts(text)


@given(texts())
@settings(max_examples=1500)
@example("[" * MAX_DEPTH + "]" * MAX_DEPTH)
def test_accepts_what_json_accepts(text: str) -> None:
    assert accepts(text) == json_accepts(text)


@given(texts(), st.lists(st.integers(0, 40)))
@settings(max_examples=500)
def test_any_cut_of_anything_agrees(text: str, cuts: list[int]) -> None:
    once = scan_cut(text, [])
    at, state, out = scan_cut(text, sorted(cut for cut in cuts if cut <= len(text)))
    assert (at, state, out) == once
    assert scan_json(text, 0, START) == once[:2]  # without `out`, whole containers are read in one go


@pytest.mark.parametrize(
    "text",
    [
        "[" + ", ".join(["[{}]"] * MAX_DEPTH) + "]",  # more containers than may be open at once
        "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH + " tail",
        "[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1),
        "[" + '{"a": [' * MAX_DEPTH + "]}" * MAX_DEPTH + "]",
        "[" * 100_000,
        '{"a": ' + "9" * 10_000 + "}",
        '{"a": "\n"}',
        '["' + "x" * WINDOW + '"]',
        '{"a": NaN}',
        "[1}",
    ],
)
def test_what_is_read_in_one_go_ends_where_it_would_bit_by_bit(text: str) -> None:
    assert scan_json(text, 0, START) == scan_cut(text, [])[:2]


def test_no_more_is_looked_at_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def decode(text: str) -> tuple[object, int]:
        looked_at.append(len(text))
        return json.JSONDecoder().raw_decode(text)

    monkeypatch.setattr(json_scan, "_decode", decode)
    text = '{"a" }' * WINDOW
    assert scan_json(text, 0, START) == (5, BAD)
    assert looked_at == [WINDOW]
    assert scan_json("{" * WINDOW + "}", 0, START) == (1, BAD)
    assert looked_at == [WINDOW]  # what cannot begin a container is not decoded at all


@given(values, st.sampled_from(["\n", "\x00", "\x1f\t"]))
@settings(max_examples=200)
def test_out_is_strict_json_of_the_same_value(value: object, raw: str) -> None:
    text = json.dumps([value, "RAW", {"RAW": 1}], ensure_ascii=False).replace("RAW", raw)
    for cuts in ([], list(range(1, len(text)))):
        at, state, out = scan_cut(text, cuts)
        assert (at, state) == (len(text), DONE)
        assert json.loads(out) == json.loads(text, strict=False)


@pytest.mark.parametrize("char", "[{")
def test_depth_is_bounded(char: str) -> None:
    text = '{"a":' * (MAX_DEPTH - 1) + ("[" if char == "[" else "{")
    at, state = scan_json(text, 0, START)
    assert (at, depth(state)) == (len(text), MAX_DEPTH)
    bad = text + ('"k":' if char == "{" else "") + char
    at, state = scan_json(bad, 0, START)
    assert (at, state) == (len(bad) - 1, BAD)


def test_stops_behind_each_lexeme_of_the_asked_depth() -> None:
    text = '{"a": [1, {"b": 2}], "c": 3} x'
    at, state, stops = 0, START, []
    while state not in (DONE, BAD):
        before = at
        at, state = scan_json(text, at, state, 1)
        stops.append(text[before:at])
    assert stops == ["{", '"a"', ":", ' [1, {"b": 2}]', ",", ' "c"', ":", " 3", "}"]
    assert (at, state) == (len(text) - 2, DONE)


def test_stops_at_the_first_character_that_cannot_belong_to_it() -> None:
    for text, at in [("[1, x]", 4), ('{"a" 1}', 5), ("}", 0), ('"\\q"', 2), ("truth", 3), ("[-x]", 2)]:
        assert scan_json(text, 0, START) == (at, BAD)
        assert scan_json(text, at, BAD) == (at, BAD)


def test_knows_when_it_is_in_a_string() -> None:
    for text, inside in [('{"a', True), ('{"a"', False), ('{"a": "x\\', True), ('["\\u12', True), ("[1", False)]:
        assert in_string(scan_json(text, 0, START)[1]) is inside


def reachable() -> set[str]:
    """All states with at most two containers open, found by feeding characters to the scanner."""
    alphabet = '{}[]",: -+.eE019truefalsn\\ub\n!'
    seen, new = {START}, [START]
    while new:
        state = new.pop()
        for char in alphabet:
            after = scan_json(char, 0, state)[1]
            if after not in seen and depth(after) <= 2:
                seen.add(after)
                new.append(after)
    return seen


def test_accepts_exactly_the_states_that_it_can_reach() -> None:
    states = reachable()
    rests = {state.partition("|")[2] for state in states} | {
        "",
        "x",
        "u0",
        "s\\\\",
        "su4",
        "s\\u1234",
        "s\\ug",
        "S\\u",
        "nE",
        "ltrue",
        "l",
        "vv",
        "n",
    }
    stacks = ["", *("".join(stack) for size in (1, 2) for stack in product("[{", repeat=size)), "(", "|"]
    for stack, rest in product(stacks, rests):
        state = f"{stack}|{rest}"
        assert check_scan_state(state) == (state in states), state
    assert check_scan_state("[" * MAX_DEPTH + "|v")
    assert not check_scan_state("[" * (MAX_DEPTH + 1) + "|v")
    assert not check_scan_state("v")
    assert not check_scan_state("|v\n")


def test_every_state_goes_on_with_every_character() -> None:
    for state, char in product(reachable(), map(chr, range(0x100))):
        at, after = scan_json(char, 0, state)
        assert at <= 1
        assert check_scan_state(after)


class Counting(str):
    """A text that counts how often one of its characters is asked for by itself."""

    asked = 0

    def __getitem__(self, key: object) -> str:
        Counting.asked += 1
        return super().__getitem__(key)  # type: ignore[index]


@pytest.mark.parametrize(
    "unit", ['{"a": "b\\n\x00", "c": [1.5, true]}, ', "[[[], []], {}], ", '"x\\u00e9", ', "1, ", "\x00\n"]
)
def test_work_grows_with_the_text_and_no_faster(unit: str) -> None:
    counts = []
    for times in (100, 200, 400):
        Counting.asked = 0
        text = Counting("[" + unit * times if unit[0] != "\x00" else '["' + unit * times)
        at, _ = scan_json(text, 0, START, 0, [])
        assert at == len(text)
        counts.append(Counting.asked)
    for small, large in pairwise(counts):
        assert large <= 2 * small + 10
    assert counts[-1] <= 2 * 400 * (len(unit) + 2)


def test_a_long_plain_string_is_not_read_character_by_character() -> None:
    text = Counting('["' + "x" * 1_000_000 + '"]')
    Counting.asked = 0
    assert scan_json(text, 0, START)[1] == DONE
    assert Counting.asked < 20
    assert re.fullmatch(r"\[\"x+\"\]", text)
