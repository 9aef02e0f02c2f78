"""From the text of a call to a name and strict JSON arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core import Call, dump_json, normalize_arguments, parse_call, parse_calls, parse_object
from derender_core.json_text import is_json, normalize_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)
HUGE = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a":1.0,  "b" : 1E5, "c": -0, "d": 0.10}',
        f'{{"n": {HUGE}}}',
        '{"é": "\\u00e9\\/", "x": "日本"}',
        '{"half": "\\ud83c"}',
        '{"a": {"b": [{"c": {}}]}, "b": 1}',
        '{"a": {"x": 1}, "b": {"x": 1}}',
    ],
)
def test_strict_arguments_keep_their_characters(text: str) -> None:
    assert normalize_arguments(f" \n{text}\t") == text


@pytest.mark.parametrize("text", ["", " \n", "null", " null "])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert normalize_arguments(text) == "{}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "a": 2.50}', '{"a": 2.50}'),
        (f'{{"a": 1, "a": {HUGE}, "b": 1e400}}', f'{{"a": {HUGE}, "b": 1e400}}'),
        ('{"x": {"a": 1, "b": 3, "a": "é"}}', '{"x": {"a": "é", "b": 3}}'),
        ('{"x": [[{"a": 1, "a": 2}]]}', '{"x": [[{"a": 2}]]}'),
        ('{"a": "one\ntwo\tand\x00"}', '{"a": "one\\ntwo\\tand\\u0000"}'),
        ('{"k\n": 1.0}', '{"k\\n": 1.0}'),
        ('{"a": "\n", "b": "\\ud83c", "c": "\\ud83c\\udf0a"}', '{"a": "\\n", "b": "\\ud83c", "c": "🌊"}'),
        ('{"a": "\n", "t": true, "f": false, "n": null}', '{"a": "\\n", "t": true, "f": false, "n": null}'),
    ],
)
def test_what_is_not_strict_is_written_again(text: str, expected: str) -> None:
    assert normalize_arguments(text) == expected
    assert json.loads(expected, parse_int=str, parse_float=str) == json.loads(
        text, strict=False, parse_int=str, parse_float=str
    )


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ('{"a": 1.0}', '{"a": 1.0}'),
        (' {"a": 1} ', '{"a": 1}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('{"a": "x\ny"}', '{"a": "x\\ny"}'),
        ('{"a": "{\\"b\\": 1}"}', '{"a": "{\\"b\\": 1}"}'),  # decoded once, not again
        ("{", None),
        ('{"a": NaN}', None),
        ('{"a": 1} x', None),
        ("[1]", None),
        ("null", None),
        ("text", None),
        ("", None),
        ('{"a":' * 250 + "1" + "}" * 250, None),
    ],
)
def test_an_object_in_a_string_is_decoded_once(inside: str, expected: str | None) -> None:
    assert normalize_arguments(json.dumps(inside)) == expected


@pytest.mark.parametrize(
    "text", ["1", "1.5", "true", "[]", '[{"a": 1}]', '"x"', "{", "{'a': 1}", '{"a": NaN}', "{} {}"]
)
def test_anything_else_is_no_object(text: str) -> None:
    assert normalize_arguments(text) is None


def test_text_that_was_never_scanned_does_not_run_out_of_stack() -> None:
    for levels in (300, 900, 5000, 100_000):
        text = '{"a":' * levels + "1" + "}" * levels
        assert normalize_arguments(text) in (None, text)
        call, _ = parse_object(f'{{"name": "f", "arguments": {text}}}')
        assert call in (None, Call("f", text))


@given(st.dictionaries(st.text(max_size=4), values, max_size=4), st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=200)
def test_arguments_are_a_strict_object_of_the_same_value(value: dict[str, object], ascii_: bool, indent: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    assert normalize_arguments(text) == text
    assert json.loads(normalize_arguments(text.replace("\\n", "\n")) or "") == value
    assert json.loads(dump_json(value)) == value


CALL = Call("f", '{"a": 1}')


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}}',
        ' {"arguments": {"a": 1}, "name": "f"}\n',
        '{"name": "f", "parameters": {"a": 1}}',
        '{"name": "f", "parameters": {"b": 2}, "arguments": {"a": 1}}',
        '{"id": 7, "type": "function", "name": "f", "arguments": {"a": 1}, "extra": [{}]}',
        '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
        '{"name": "g", "name": "f", "arguments": 5, "arguments": {"a": 1}}',
        '{"name": "\\u0066", "argu\\u006dents": "{\\"a\\": 1}"}',
        '[{"name": "f", "arguments": {"a": 1}}]',
        '{"name": "f", "arguments": {"a": 1}, "extra": 5}',
        '{"name": "g", "arguments": {"b": 2}, "name": "f", "arguments": {"a": 1}}',
        '{ "name"\t:"f"\n,\r"arguments" : {"a": 1} }',
    ],
)
def test_reads_a_call(text: str) -> None:
    assert parse_call(text) == CALL


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "arguments": null}', "{}"),
        ('{"name": "f", "arguments": {"name": "g", "arguments": {"parameters": 1}}}',
         '{"name": "g", "arguments": {"parameters": 1}}'),
        ('{"name": "f", "arguments": {"a": "\\"}, \\"name\\": \\"g\\""}}', '{"a": "\\"}, \\"name\\": \\"g\\""}'),
        ('{"name": "f", "function": {"name": "g"}}', "{}"),
    ],
)  # fmt: skip
def test_only_top_level_keys_count(text: str, arguments: str) -> None:
    assert parse_call(text) == Call("f", arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        '{"name": ""}',
        '{"name": 5, "arguments": {}}',
        '{"name": null}',
        '{"name": ["f"]}',
        '{"name": "\\ud83c"}',
        '{"name": "f", "arguments": 5}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "text"}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"function": "f"}',
        '{"function": {}}',
        '{"arguments": {}}',
        '{"name": "f"} x',
        'x {"name": "f"}',
        '{"name": "f"}{"name": "g"}',
        '[{"name": "f"}',
        '{"name": "f"',
        "{'name': 'f'}",
        '{"name" "f"}',
        '["f"]',
        "[]",
    ],
)
def test_anything_else_is_no_call(text: str) -> None:
    assert parse_call(text) is None


def test_missing_arguments_may_be_refused() -> None:
    assert parse_call('{"name": "f"}', required=True) is None
    assert parse_call('{"name": "f", "parameters": null}', required=True) == Call("f", "{}")
    assert parse_call('{"name": "f", "args": {"a": 1}}', keys=("args",), required=True) == CALL


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}}{"name": "g"}',
        ' {"name": "f", "arguments": {"a": 1}}\n\n{"name": "g"} ',
        '[{"name": "f", "arguments": {"a": 1}}, {"name": "g"}]',
        ' [ {"name": "f", "arguments": {"a": 1}}\n,{"name": "g"} ] ',
    ],
)
def test_reads_calls_in_a_row_or_in_a_list(text: str) -> None:
    assert parse_calls(text) == [CALL, Call("g", "{}")]


@pytest.mark.parametrize("text", ['{"name": "f"}, {"name": "g"}', '{"name": "f"} {}', '[{"name": "f"}] []', "[{}, 1]"])
def test_one_that_is_no_call_spoils_all(text: str) -> None:
    assert parse_calls(text) is None


def test_says_where_the_object_ends() -> None:
    text = 'so: {"name": "f", "arguments": {"a": 1}}; more'
    assert parse_object(text, 4) == (CALL, text.index(";"))
    assert parse_object(text, 0) == (None, 0)
    assert parse_object('{"x": 1} {', 0) == (None, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", "7"),
        (" -1.50e3\n", "-1.50e3"),
        ("null", "null"),
        ('"x"', '"x"'),
        ('["a\nb"]', '["a\\nb"]'),
        ("[1, {}]", "[1, {}]"),
        ("7 8", None),
        ("-", None),
        ("1.", None),
        ("NaN", None),
        ("", None),
    ],
)
def test_any_value_is_json(text: str, expected: str | None) -> None:
    assert is_json(text) is (expected is not None)
    if expected is not None:
        assert (normalize_json(text) or "").strip() == expected
