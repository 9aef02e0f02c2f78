"""Server-sent events, cut anywhere."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender_server.gateway.event_reader import EventReader, EventTooLongError

EVENTS = [b'{"a": 1}', b"[DONE]", b"two\nlines", "é😀".encode()]
STREAM = (
    b": a comment\n\n"
    b'data: {"a": 1}\r\n\r\n'
    b"event: named\rid: 5\rdata:[DONE]\r\r"
    b"data: two\ndata: lines\n\n"
    b"data: " + EVENTS[3] + b"\n\n"
    b"retry: 10\n\n"
    b"data: never ended\n"
)


def read(pieces, max_bytes=1000):
    reader = EventReader(max_bytes)
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_come_out_whole_however_they_are_cut(size):
    assert read([STREAM[at : at + size] for at in range(0, len(STREAM), size)]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_come_out_whole_at_random_cuts(cuts):
    assert read([STREAM[low:high] for low, high in itertools.pairwise(sorted([0, *cuts, len(STREAM)]))]) == EVENTS


def test_an_event_that_never_ends_is_refused_at_the_limit():
    for piece in (b"x" * 10, b"data: 1234567890\n"):
        with pytest.raises(EventTooLongError, match="100"):
            read([piece] * 20, max_bytes=100)


def test_what_is_over_does_not_count():
    reader = EventReader(100)
    assert sum(len(reader.feed(b": comment\n\ndata: 1234567890\n\n")) for _ in range(50)) == 50
