"""Names that an object gives twice: found in every layout, and nowhere else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender_core.errors import InputError
from derender_server.wire.decode import decode_body, decode_either, decode_value
from derender_server.wire.derender import DerenderChatRequest, DerenderChatStreamRequest
from derender_server.wire.names import LOOKED_INTO_BYTES, members_of

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
spaces = st.text(" \t\r\n", max_size=2)
pairs = st.lists(st.tuples(texts, values), max_size=5, unique_by=lambda pair: pair[0])


@st.composite
def written(draw, members):
    """An object with these members, in some layout."""
    ascii_only = draw(st.booleans())
    layouts = [(",", ":"), (", ", ": "), None]
    layout = draw(st.sampled_from(layouts))
    gap = (lambda: draw(spaces)) if layout is None else (lambda: "")
    comma, colon = layout or (",", ":")
    parts = [
        gap()
        + json.dumps(name, ensure_ascii=ascii_only)
        + gap()
        + colon
        + gap()
        + json.dumps(value, ensure_ascii=ascii_only)
        + gap()
        for name, value in members
    ]
    return (gap() + "{" + comma.join(parts) + (gap() if not parts else "") + "}" + gap()).encode()


@given(st.data(), pairs)
def test_names_that_differ_are_passed_in_any_layout(data, members):
    body = data.draw(written(members))
    found = members_of(body)
    assert {name: json.loads(bytes(raw)) for name, raw in found.items()} == dict(members)


@pytest.mark.rule("8.5")
@given(st.data(), pairs.filter(len), values)
def test_a_name_that_comes_again_is_found_and_told_in_any_layout(data, members, value):
    name = data.draw(st.sampled_from(members))[0]
    members.insert(data.draw(st.integers(0, len(members))), (name, value))
    for body, path in (
        (data.draw(written(members)), name),
        (b'{"a": 1, "inner":%b}' % data.draw(written(members)).strip(), f"inner.{name}"),
    ):
        with pytest.raises(InputError, match="is given twice") as caught:
            members_of(body)
        assert caught.value.param == path


def test_an_escaped_name_is_the_same_name():
    with pytest.raises(InputError, match="a is given twice"):
        members_of(b'{"a": 1, "\\u0061": 1}')


def test_what_is_deeper_or_longer_is_not_looked_at():
    members_of(b'{"a": {"b": {"c": 1, "c": 2}}, "d": [{"e": 1, "e": 1}]}')
    long = b'{"x": "%b", "x": 1}' % (b"y" * LOOKED_INTO_BYTES)
    members_of(b'{"a": %b}' % long)


@pytest.mark.parametrize(
    "decode",
    [
        decode_value,
        lambda body: decode_body(body, DerenderChatRequest),
        lambda body: decode_either(body, DerenderChatRequest, DerenderChatStreamRequest),
    ],
)
def test_every_way_to_decode_a_body_looks(decode):
    with pytest.raises(InputError, match="stream is given twice"):
        decode(b'{"stream": false, "stream": true, "generate_response": {"choices": []}}')


@pytest.mark.rule("8.4")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'\xef\xbb\xbf{"tokens": [1]}', "byte order mark"),
        ('{"tokens": [1]}'.encode("utf-16"), "UTF-16"),
        ('{"tokens": [1]}'.encode("utf-16-le"), "UTF-16"),
        ('{"tokens": [1]}'.encode("utf-32"), "UTF-32"),
        ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\\udc00"}', "surrogate"),
        (b'{"a": "\\ud800\\u0041"}', "surrogate"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": -Infinity}', "not valid JSON"),
        (b'{"a": 01}', "not valid JSON"),
        (b'{"a": 1} {}', "not valid JSON"),
        (b"", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_says_why(body, message):
    for decode in (
        decode_value,
        lambda body: decode_body(body, DerenderChatRequest),
        lambda body: decode_either(body, DerenderChatRequest, DerenderChatStreamRequest),
    ):
        with pytest.raises(InputError, match=message):
            decode(body)
