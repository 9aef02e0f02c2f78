"""Streams of token ids: however they are cut, whatever is carried through JSON, the answer is the one-shot answer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    ModelTokenizer,
    ParseContext,
    Pipeline,
    Reasoning,
    Step,
    StopStrings,
    Stream,
    Text,
    TokenIdError,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    fold_message,
    hookimpl,
    load_parser,
    make_parser,
    merge_events,
)

TOOLS = (Tool("ping", {"type": "object"}),)
CALL = '<tool_call>\n{"name": "ping", "arguments": {"a": "é 🌊"}}\n</tool_call>'
OUTPUT = f"<think>\nDoes {CALL} help? Ünd 日本 🌊.\n</think>\n\nIt <does.\n{CALL}\n{CALL} Bye </thi"


def partitions(size: int, seeds: int = 6) -> Iterator[list[int]]:
    """Chunk lengths: all at once, one by one, all cuts in two (an empty push now and then), some at random."""
    yield [size]
    yield [1] * size
    for at in range(size + 1):
        yield [at, size - at]
    for seed in range(seeds):
        rng = random.Random(seed)
        lengths: list[int] = []
        while sum(lengths) < size:
            lengths.append(min(rng.randint(0, 6), size - sum(lengths)))
        yield lengths


class Requests:
    """Streams of one request, one-shot and resumed from their state at every push."""

    def __init__(self, tokenizer: ModelTokenizer, pipeline: Pipeline, context: ParseContext, **options: Any) -> None:
        self.make = lambda **more: Stream(tokenizer, pipeline, context, **options, **more)

    def once(self, ids: Sequence[int], reason: str | None = "stop", **start: Any) -> tuple[list[Event], Stream]:
        stream = self.make(**start)
        return merge_events(stream.push(ids, final=True, finish_reason=reason)), stream

    def cut(
        self, ids: Sequence[int], lengths: Sequence[int], reason: str | None = "stop", **start: Any
    ) -> tuple[list[Event], Stream]:
        """Push these many ids at a time, with a new stream from the JSON of the last one's state each time."""
        stream = self.make(**start)
        events: list[Event] = []
        at = 0
        for length in lengths:
            events += stream.push(ids[at : at + length])
            at += length
            stream = self.make(state=json.loads(json.dumps(stream.state)))
        events += stream.push([], final=True, finish_reason=reason)
        return merge_events(events), stream


@pytest.fixture(scope="module")
def tokenizer(make_byte_level: Callable[..., ModelTokenizer]) -> ModelTokenizer:
    return make_byte_level(b"</th", b"ink>", "é".encode(), b"\xf0\x9f", b"\x8c\x8a", b"\n\n", b"ool_call>", b": <t")


@pytest.fixture(scope="module")
def ids(tokenizer: ModelTokenizer) -> list[int]:
    return spell(tokenizer, OUTPUT)


def spell(tokenizer: ModelTokenizer, text: str) -> list[int]:
    """The longest token first; not a real tokenizer's choice, but one that a model may make."""
    data = text.encode()
    tokens = sorted(
        ((tokenizer.token_bytes(i), i) for i in range(tokenizer.size) if i not in tokenizer.special_ids), reverse=True
    )
    tokens = sorted((token for token in tokens if token[0]), key=lambda token: -len(token[0]))
    ids = []
    while data:
        token, token_id = next(pair for pair in tokens if data.startswith(pair[0]))
        ids.append(token_id)
        data = data[len(token) :]
    return ids


def pipeline(tool: str | None = "hermes", reasoning: str | None = "qwen3") -> Pipeline:
    return Pipeline(
        load_parser("tool", tool) if tool else None, load_parser("reasoning", reasoning) if reasoning else None
    )


@pytest.mark.parametrize("mode", ["whole", "arguments"])
def test_no_cut_changes_the_answer(tokenizer: ModelTokenizer, ids: list[int], mode: Any) -> None:
    requests = Requests(tokenizer, pipeline(), ParseContext(tools=TOOLS, stream_tool_calls=mode))
    once, stream = requests.once(ids)
    message = fold_message(once)
    assert message.reasoning == f"Does {CALL} help? Ünd 日本 🌊."
    assert message.content == "It <does.\n\n Bye </thi"
    assert [call.arguments for call in message.tool_calls] == ['{"a": "é 🌊"}'] * 2
    for lengths in partitions(len(ids)):
        events, last = requests.cut(ids, lengths)
        assert events == once
        assert (last.reasoning_tokens, last.output_tokens) == (stream.reasoning_tokens, len(ids))


def test_without_parsers_all_is_text(tokenizer: ModelTokenizer, ids: list[int]) -> None:
    events, stream = Requests(tokenizer, Pipeline(), ParseContext(tools=TOOLS)).once(ids)
    assert events == [Text(OUTPUT)]
    assert stream.reasoning_tokens == 0


@pytest.mark.parametrize("opening", [True, False])
def test_the_prompt_tells_whether_reasoning_is_open(tokenizer: ModelTokenizer, opening: bool) -> None:
    prompt = spell(tokenizer, "<think>\n" if opening else "<think>\n\n</think>\n\n")
    requests = Requests(tokenizer, pipeline(), ParseContext())
    ids = spell(tokenizer, "Hm\n</think>\n\nSo")
    once, stream = requests.once(ids, prompt_token_ids=prompt)
    assert stream.reasoning_open is opening
    assert once == ([Reasoning("Hm"), Text("So")] if opening else [Text("Hm\n\n\nSo")])
    for lengths in partitions(len(ids)):  # and the state remembers it: the prompt is not given again
        assert requests.cut(ids, lengths, prompt_token_ids=prompt)[0] == once


def test_reasoning_tokens_are_those_whose_text_begins_inside(tokenizer: ModelTokenizer) -> None:
    requests = Requests(tokenizer, pipeline(), ParseContext(reasoning_open=True))
    inside, after = spell(tokenizer, "A 🌊 is\nwet"), spell(tokenizer, "\n</think>\n\nYes")
    ids = inside + after
    _, stream = requests.once(ids)
    assert stream.reasoning_tokens == len(inside) + 1  # the newline before the closer was read inside, too
    for lengths in partitions(len(ids)):
        assert requests.cut(ids, lengths)[1].reasoning_tokens == stream.reasoning_tokens


def test_reasoning_tokens_of_a_parser_that_does_not_say_are_counted_by_its_texts(tokenizer: ModelTokenizer) -> None:
    class Upper:
        """Capitals are reasoning."""

        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Step:
            return Step({}, tuple(Reasoning(char) if char.isupper() else Text(char) for char in delta.text))

    parsers = Pipeline(reasoning=make_parser("reasoning", "upper", Upper()))
    _, stream = Requests(tokenizer, parsers, ParseContext()).once(list(b"ABcDe"))
    assert stream.reasoning_tokens == 3


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_stop_strings_cut_alike_at_every_cut(tokenizer: ModelTokenizer, include: bool, reason: str) -> None:
    text = "<think>\nstop, thinks\n</think>\n\nAll the the End of it 🌊 and </think> on"
    ids = spell(tokenizer, text)
    for strings in [("End of",), ("the End", "the E"), ("hinks\n</thin",), ("🌊 a", "nowhere"), ("zzz",), ("s",)]:
        stop = StopStrings(strings, include=include)
        requests = Requests(tokenizer, pipeline(), ParseContext(), stop=stop)
        once, stream = requests.once(ids, reason)
        for lengths in partitions(len(ids), seeds=2):
            events, last = requests.cut(ids, lengths, reason)
            assert events == once
            assert (last.stopped, last.reasoning_tokens) == (stream.stopped, stream.reasoning_tokens)
            assert len(last.state.get("q", ())) <= len(ids)


def test_what_follows_a_stop_string_leaves_no_trace(tokenizer: ModelTokenizer) -> None:
    stream = Stream(tokenizer, pipeline(), ParseContext(reasoning_open=True), stop=StopStrings(("END",)))
    assert stream.push(list(b"Hm END")) == [Reasoning("Hm ")]
    size = len(json.dumps(stream.state))
    for _ in range(50):
        assert stream.push(list(b" and on")) == []
    assert len(json.dumps(stream.state)) <= size + 4  # the digits of the token count
    assert (stream.stopped, stream.reasoning_tokens) == ("END", 3)


def test_a_special_token_behind_a_stop_string_leaves_a_state_that_goes_on(tokenizer: ModelTokenizer) -> None:
    stop = StopStrings(("END",))
    stream = Stream(tokenizer, pipeline(), ParseContext(), stop=stop)
    stream.push(spell(tokenizer, "fine END<think>"))
    resumed = Stream(tokenizer, pipeline(), ParseContext(), stop=stop, state=json.loads(json.dumps(stream.state)))
    assert resumed.push(spell(tokenizer, "more"), final=True, finish_reason="stop") == []
    assert resumed.stopped == "END"


def test_min_tokens_counts_tokens_not_characters(tokenizer: ModelTokenizer) -> None:
    ids = spell(tokenizer, "é. é. é.")  # é is one token here
    for least, expected in [(0, "é"), (1, "é"), (2, "é. é"), (4, "é. é"), (5, "é. é. é"), (8, "é. é. é.")]:
        requests = Requests(tokenizer, Pipeline(), ParseContext(), stop=StopStrings((".",), min_tokens=least))
        for lengths in partitions(len(ids), seeds=2):
            assert requests.cut(ids, lengths)[0] == [Text(expected)]


def test_special_tokens_stay_whole_though_a_stop_string_may_begin_in_them(tokenizer: ModelTokenizer) -> None:
    closer = tokenizer.token_id("</think>")
    assert closer is not None

    class Marks:
        """Shows where special tokens are."""

        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Step:
            return Step({}, tuple(Text(f"[{delta.text[mark.start : mark.end]}]") for mark in delta.specials))

        @hookimpl
        def derender_special_tokens(self) -> tuple[str, ...]:
            return ("</think>",)

    parsers = Pipeline(reasoning=make_parser("reasoning", "marks", Marks()))
    ids = [*b"a", closer, *b"b", closer, *b"!!"]
    stop = StopStrings(("ink>!!", ">c"))
    requests = Requests(tokenizer, parsers, ParseContext(), stop=stop)
    for lengths in partitions(len(ids)):
        events, stream = requests.cut(ids, lengths)
        assert events == [Text("[</think>]")]
        assert stream.stopped == "ink>!!"


def test_special_tokens_are_dropped_unless_asked_for(tokenizer: ModelTokenizer) -> None:
    ids = [*b"Hi", *(tokenizer.token_id(text) for text in ("<s>", "</s>"))]
    assert Stream(tokenizer).push(ids, final=True) == [Text("Hi")]
    assert merge_events(Stream(tokenizer, skip_special_tokens=False).push(ids, final=True)) == [Text("Hi<s></s>")]


def test_a_character_that_never_ends_is_let_out_at_the_end(tokenizer: ModelTokenizer) -> None:
    requests = Requests(tokenizer, pipeline(), ParseContext(reasoning_open=True))
    ids = [*b"Hm ", *"🌊".encode()[:2]]
    for lengths in partitions(len(ids)):
        assert requests.cut(ids, lengths)[0] == [Reasoning("Hm \N{REPLACEMENT CHARACTER}")]


def test_negative_ids_are_refused(tokenizer: ModelTokenizer) -> None:
    with pytest.raises(TokenIdError):
        Stream(tokenizer).push([3, -1])


def test_the_state_does_not_grow_with_the_output(tokenizer: ModelTokenizer) -> None:
    stop = StopStrings(("never said", "\n\n\n"))
    context = ParseContext(tools=TOOLS, reasoning_open=True, stream_tool_calls="arguments")
    stream = Stream(tokenizer, pipeline(), context, stop=stop)
    unit = 'Wörds never < </ 🌊 said {"a": [1, 2]} '
    parts = [
        unit * 150,
        "</think>",
        unit * 150,
        *[f"{CALL} and\n"] * 60,
        '<tool_call>{"name": "ping", "arguments": {"t":"',
    ]
    ids = [token for part in [*parts, "long " * 1500] for token in spell(tokenizer, part)]
    assert len(ids) > 20_000
    sizes = []
    for token in ids:
        stream.push([token])
        sizes.append(len(json.dumps(stream.state)))
    argument = sizes[-7000:]
    assert max(argument[-1000:]) <= max(argument[:1000]) + 2  # digits of the token count
    assert max(sizes) < 500
    events = stream.push(list(b'"}}'), final=True, finish_reason="stop")
    assert events == [ToolCallArguments(60, '"}'), ToolCallEnd(60)]


@pytest.mark.real_tokenizer
@pytest.mark.parametrize(
    ("name", "reasoning", "open_"), [("qwen3", "qwen3", None), ("deepseek_v3", "deepseek_r1", True)]
)
def test_real_tokenizers(
    real_tokenizer: Callable[[str], ModelTokenizer], name: str, reasoning: str, open_: bool | None
) -> None:
    tokenizer = real_tokenizer(name)
    requests = Requests(tokenizer, pipeline("hermes", reasoning), ParseContext(tools=TOOLS, reasoning_open=open_))
    ids = tokenizer.encode(OUTPUT)
    once, stream = requests.once(ids)
    message = fold_message(once)
    assert (message.content, len(message.tool_calls)) == ("It <does.\n\n Bye </thi", 2)
    for lengths in partitions(len(ids), seeds=3):
        events, last = requests.cut(ids, lengths)
        assert (events, last.reasoning_tokens) == (once, stream.reasoning_tokens)
