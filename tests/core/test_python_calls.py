"""Pythonic calls: the scanner stops where Python's brackets do, the reader gives what Python means, as JSON text."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender_core import (
    Call,
    check_python_state,
    is_python_name,
    parse_python_calls,
    python_json,
    scan_python_list,
)

# (text, its value as JSON text)
VALUES = [
    ("'a'", '"a"'),
    ('"it\'s"', '"it\'s"'),
    ("''", '""'),
    ("'''a 'b'\n\"c\"'''", '"a \'b\'\\n\\"c\\""'),
    ('"""a ""b"""', '"a \\"\\"b"'),
    ("'a\nb'", '"a\\nb"'),
    ("'a\\\nb'", '"ab"'),
    (r"'\n\t\\\'\"\x41\u00e9\U0001F600'", '"\\n\\t\\\\\'\\"Aé😀"'),
    (r"'\0\101'", '"\\u0000A"'),
    (r"'\d \. \x4 \u12 \U00110000 \N'", r'"\\d \\. \\x4 \\u12 \\U00110000 \\N"'),
    (r"'\ud83d\ude00'", '"😀"'),
    (r"'\ud83d' '\ude00'", '"😀"'),
    (r"'\ud83d'", r'"\ud83d"'),
    (r"r'\n\''", r'"\\n\\' + "'" + '"'),
    ("R'a' u\"b\"\n'c'", '"abc"'),
    ("f'{{n}}'", '"{n}"'),
    ("rf'{{\\d}}'", '"{\\\\d}"'),
    ("'Łódź 日本'", '"Łódź 日本"'),
    ("3", "3"),
    ("-3", "-3"),
    ("- 3", "-3"),
    ("-0", "-0"),
    ("00", "0"),
    ("1_000", "1000"),
    ("0x1F", "31"),
    ("-0x_ff", "-255"),
    ("0o17", "15"),
    ("0B101", "5"),
    ("9" * 5000, "9" * 5000),
    ("3.0", "3.0"),
    ("3.10", "3.10"),
    (".5", "0.5"),
    ("1.", "1.0"),
    ("01.50", "1.50"),
    ("1.e5", "1.0e5"),
    ("1e3", "1e3"),
    ("1E-05", "1E-05"),
    ("1_0.2_5e1_0", "10.25e10"),
    ("1e999", "1e999"),
    ("True", "true"),
    ("False", "false"),
    ("None", "null"),
    ("true", "true"),
    ("null", "null"),
    ("[]", "[]"),
    ("[1, 'a', [True], ]", '[1, "a", [true]]'),
    ("()", "[]"),
    ("('a')", '"a"'),
    ("('a',)", '["a"]'),
    ("(1, (2))", "[1, 2]"),
    ("{}", "{}"),
    ("{3, 1, 2}", "[3, 1, 2]"),
    ("{1}", "[1]"),
    ("{'a': {'b': [1]}, \"c\": None,}", '{"a": {"b": [1]}, "c": null}'),
    ("{1: 'a', -2.5: 'b', 0x10: 'c'}", '{"1": "a", "-2.5": "b", "16": "c"}'),
    ("{'a': 1, 'b': 2, 'a': 3}", '{"a": 3, "b": 2}'),
    (" \n[ 1\t,\f2 ]\r\n", "[1, 2]"),
    ("[" * 199 + "1" + "]" * 199, "[" * 199 + "1" + "]" * 199),
]

NOT_VALUES = [
    "", " ", "x", "inf", "nan", "TRUE", "Nonesuch", "1 2", "1 + 1", "--1", "+1", "-'a'", "-True", "-",
    "0123", "1__0", "1_", "0x", "0xg", "1j", "1.2.3", ".", "1.real", "1e", "0x" + "f" * 5000, "٣",
    "'a", "'a\"", "'''a''", "'a'b", "b'a'", "rb'a'", "ur'a'", "xx'a'", "f'{n}'", "f'}'", "'a' 1", "'a'[0]",
    "'a'.upper()", "'a' % 1", "f()", "[1 2]", "[,]", "[1,,2]", "[1", "1]", "(,)", "(1", "[1)", "{,}", "{'a': }",
    "{'a' 1}", "{'a': 1, 2}", "{1, 'a': 2}", "{'a': 1,, }", "{None: 1}", "{True: 1}", "{(1,): 2}", "{[]: 1}",
    "{**a}", "[*a]", "[i for i in y]", "lambda: 1", "1 if 2 else 3", "[" * 201 + "]" * 201, "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=lambda text: repr(text)[:40])
def test_literals_become_json(text: str, expected: str) -> None:
    assert python_json(text) == expected


@pytest.mark.parametrize("text", NOT_VALUES, ids=lambda text: repr(text)[:40])
def test_everything_else_is_refused(text: str) -> None:
    assert python_json(text) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_what_python_writes_is_read(value: Any) -> None:
    written = repr(value)
    assert ast.literal_eval(written) == value
    read = python_json(written)
    assert read is not None
    assert json.loads(read) == value


@given(PLAIN)
def test_json_is_read(value: Any) -> None:
    read = python_json(json.dumps(value))
    assert read is not None
    assert json.loads(read) == value


SOUP = st.lists(
    st.sampled_from(
        ["[", "]", "(", ")", "{", "}", "'", '"', "'''", '"""', "\\", "f", "r", "1", "x", "=", ",", ":", " ", "\n", "é"]
    ),
    max_size=25,
).map("".join)


def scan(text: str, sizes: int) -> tuple[int, str]:
    """Scan in pieces, the state through JSON; where it ended and how."""
    state, progress, at = "", "more", 0
    while at < len(text) and progress == "more":
        piece = text[at : at + sizes]
        count, state, progress = scan_python_list(piece, 0, state)
        at += count
        state = json.loads(json.dumps(state))
        assert check_python_state(state)
    return at, progress


@given(SOUP)
def test_scanning_in_pieces_changes_nothing(soup: str) -> None:
    text = "[" + soup
    whole = scan(text, len(text))
    for size in (1, 2, 3, 5):
        assert scan(text, size) == whole


@given(SOUP)
def test_what_the_reader_takes_the_scanner_finds(soup: str) -> None:
    text = f"[f(x={soup})]"
    if parse_python_calls(text) is not None:
        assert scan(text + " tail ]", 3) == (len(text), "done")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("[a(x='])')] b", (11, "done")),
        ("[a(x='\\'])')]", (13, "done")),
        ("[a(x='\\\\')]]", (11, "done")),
        ("[a(x='''']''')]", (15, "done")),
        ('[a(x="""]"" ""\\"""")]', (21, "done")),
        ('[a(x="""]"" ""\\""""")]', (22, "more")),
        ("[a(x='', y=\"\")]", (15, "done")),
        ("[a(x=[1)]]", (7, "bad")),
        ("[a(x={']'", (9, "more")),
        ("[" * 201, (200, "bad")),
        ("]", (0, "bad")),
    ],
)
def test_scanner(text: str, end: tuple[int, str]) -> None:
    assert scan(text, 1) == end
    assert scan(text, len(text)) == end


def test_scanner_stays_where_it_found_something_bad() -> None:
    count, state, progress = scan_python_list("[(]", 0, "")
    assert (count, progress) == (2, "bad")
    assert scan_python_list("]", 0, state) == (0, state, "bad")


@pytest.mark.parametrize("state", ["", "|", "[(|", "[(|'", "[|''", "[|s'", '[|s"\\', "[|t'", "[|t'2", "[|t'\\", "|!"])
def test_states_of_the_scanner(state: str) -> None:
    assert check_python_state(state)
    for text in ("'", '"', "\\", "x", "[", "]", "''']", ""):
        assert check_python_state(scan_python_list(text, 0, state)[1])


@pytest.mark.parametrize("state", ["x", "[", "]|", "[|s", "[|t'3", "[|'\"", "[|!!", "[|s'\\\\", "[" * 201 + "|", "|\n"])
def test_other_states_are_refused(state: str) -> None:
    assert not check_python_state(state)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[ring()]", [Call("ring", "{}")]),
        ("[ ring ( ) , ]", [Call("ring", "{}")]),
        ("[a(x=1), b.c(y='2',)]", [Call("a", '{"x": 1}'), Call("b.c", '{"y": "2"}')]),
        ("[\n  dial(\n    number = '1',\n  ),\n]", [Call("dial", '{"number": "1"}')]),
        ("[f(from='a', class=1, ñ=2)]", [Call("f", '{"from": "a", "class": 1, "ñ": 2}')]),
        ("[get-time(zone='UTC')]", [Call("get-time", '{"zone": "UTC"}')]),
    ],
)
def test_calls(text: str, calls: list[Call]) -> None:
    assert parse_python_calls(text, {"get-time"}) == calls


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "[ ]", "[,]", "ring()", "[ring]", "[ring(]", "[ring()", "[ring()] ", "[ring()]]", "[ring(),,]",
        "[ring() ring()]", "[ring('a')]", "[ring(1, x=1)]", "[ring(x=1, 2)]", "[ring(x=1 y=2)]", "[ring(x=1, x=1)]",
        "[ring(x)]", "[ring(x=)]", "[ring(x==1)]", "[ring(=1)]", "[ring(1x=1)]", "[ring(x-y=1)]", "[ring(*a)]",
        "[ring(**k)]", "[ring(x=ring())]", "[ring(,)]", "[a-b()]", "[a..b()]", "[.a()]", "[1a()]", "[ring()()]",
        "[ring(x=1) for x in y]", "[ring() # why\n]",
    ],
)  # fmt: skip
def test_no_calls(text: str) -> None:
    assert parse_python_calls(text, {"get-time"}) is None


def test_names() -> None:
    assert [name for name in ("a", "_a.b", "é", "a-b", "a.", "", "1") if is_python_name(name)] == ["a", "_a.b", "é"]


@pytest.mark.parametrize("text", [text for text, _ in VALUES if not re.match(r"\s", text)], ids=lambda text: text[:20])
def test_every_value_is_an_argument(text: str) -> None:
    value = python_json(text)
    assert parse_python_calls(f"[f(a={text}, b = {text})]") == [Call("f", f'{{"a": {value}, "b": {value}}}')]
