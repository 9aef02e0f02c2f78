"""Replay: states rebuilt from recorded chunks, and parsers that keep their state to themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    InputError,
    ModelTokenizer,
    ParseContext,
    Pipeline,
    Reasoning,
    ReplayPlugin,
    Special,
    State,
    Stream,
    Text,
    Tool,
    fold_message,
    load_parser,
    make_parser,
    merge_events,
    replay,
)

OUTPUT = 'Hm </thin é</think>\n\nSo <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> 🌊'


class Splitter:
    """Reasoning up to </think>, kept in an object as old parsers do."""

    def __init__(self, context: ParseContext) -> None:
        self.text, self.sent, self.closed = "", 0, context.reasoning_open is False

    def feed(self, delta: Delta) -> Iterator[Event]:
        self.text += delta.text
        if not self.closed:
            at = self.text.find("</think>")
            held = next((n for n in range(7, 0, -1) if "</think>".startswith(self.text[-n:])), 0)
            end = at if at >= 0 else len(self.text) - (0 if delta.final else held)
            if end > self.sent:
                yield Reasoning(self.text[self.sent : end])
                self.sent = end
            if at < 0:
                return
            self.sent, self.closed = at + len("</think>"), True
        if len(self.text) > self.sent:
            yield Text(self.text[self.sent :])
            self.sent = len(self.text)


def feed(parser: Any, text: str, size: int, context: ParseContext) -> tuple[list[Event], State]:
    state: State | None = None
    events: list[Event] = []
    for at in range(0, len(text) + 1, size):
        delta = Delta(text[at : at + size], final=at + size > len(text))
        step = parser.parse_delta(state, delta, context)
        state = json.loads(json.dumps(step.state))
        assert parser.check_state(state) is None
        events += step.events
    assert state is not None
    return merge_events(events), state


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_replayed_parser_equals_the_machine_of_its_format(size: int) -> None:
    replayed = make_parser("reasoning", "splitter", ReplayPlugin(Splitter))
    machine = load_parser("reasoning", "deepseek_r1")
    text = OUTPUT.replace("\n", "")
    for open_ in (True, False):
        context = ParseContext(reasoning_open=open_)
        answer = text if open_ else text.replace("</think>", "")
        got, expected = feed(replayed, answer, size, context)[0], feed(machine, answer, size, context)[0]
        assert got == expected == merge_events(replayed.extract(Delta(answer, final=True), context))


def test_it_records_all_deltas_with_their_special_tokens() -> None:
    seen: list[tuple[str, tuple[Special, ...]]] = []

    class Records:
        def __init__(self, _: ParseContext) -> None:
            seen.clear()

        def feed(self, delta: Delta) -> list[Event]:
            seen.append((delta.text, delta.specials))
            return []

    parser = make_parser(
        "tool",
        "records",
        ReplayPlugin(Records, special_tokens=["<x>"], tool_call_openers=["<x>"], description="Records."),
    )
    first = parser.parse_delta(None, Delta("a<x>", (Special(1, 4, 7),)), ParseContext())
    second = parser.parse_delta(json.loads(json.dumps(first.state)), Delta("b"), ParseContext())
    assert seen == [("a<x>", (Special(1, 4, 7),)), ("b", ())]
    assert second.state == {"deltas": [["a<x>", [[1, 4, 7]]], ["b", []]]}
    assert first.state == {"deltas": [["a<x>", [[1, 4, 7]]]]}
    assert parser.special_tokens(ParseContext()) == parser.tool_call_openers(ParseContext()) == ("<x>",)
    assert parser.description == "Records."
    assert ReplayPlugin(Splitter).description == "Reasoning up to </think>, kept in an object as old parsers do."


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"deltas": {}},
        {"deltas": [], "more": 1},
        {"deltas": ["a"]},
        {"deltas": [["a"]]},
        {"deltas": [["a", {}]]},
        {"deltas": [[1, []]]},
        {"deltas": [["a", [[0, 1]]]]},
        {"deltas": [["a", [[0, 1, "2"]]]]},
        {"deltas": [["a", [[0, 1, True]]]]},
    ],
)
def test_states_that_are_no_recordings_are_refused(state: State) -> None:
    assert make_parser("tool", "splitter", ReplayPlugin(Splitter)).check_state(state)


@pytest.fixture(scope="module")
def make_stream(make_byte_level: Callable[..., ModelTokenizer]) -> Callable[..., Stream]:
    tokenizer = make_byte_level()
    pipeline = Pipeline(load_parser("tool", "hermes"), load_parser("reasoning", "qwen3"))
    return lambda **more: Stream(tokenizer, pipeline, ParseContext(tools=(Tool("f"),)), **more)


def test_replayed_chunks_give_what_the_stream_gave(make_stream: Callable[..., Stream]) -> None:
    ids = list(OUTPUT.encode())
    lengths = [7, 1, 30, len(ids) - 38]
    live, chunks, at = make_stream(), [], 0
    for length in lengths:
        chunks.append(live.push(ids[at : at + length]))
        at += length
    again = make_stream()
    assert replay(again, ids, lengths) == chunks
    assert again.state == live.state
    events = [event for chunk in chunks for event in chunk] + again.push([], final=True, finish_reason="stop")
    assert fold_message(events) == fold_message(make_stream().push(ids, final=True, finish_reason="stop"))


def test_nothing_recorded_is_a_fresh_stream(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream()
    assert replay(stream, [], []) == []
    assert stream.state == make_stream().state


@pytest.mark.parametrize("lengths", [[0, 3], [-1, 4], [True, 2], ["3"], [1.0, 2], [None, 3]])
def test_lengths_must_be_positive_integers(make_stream: Callable[..., Stream], lengths: list[Any]) -> None:
    with pytest.raises(InputError, match="positive") as error:
        replay(make_stream(), [1, 2, 3], lengths)
    assert error.value.param == "stream_state.output_chunk_lens"


@pytest.mark.parametrize("lengths", [[], [1], [2, 2], [4]])
def test_lengths_must_sum_to_the_ids(make_stream: Callable[..., Stream], lengths: list[int]) -> None:
    with pytest.raises(InputError, match=f"sum to {sum(lengths)} but output_token_ids has 3"):
        replay(make_stream(), [1, 2, 3], lengths)
