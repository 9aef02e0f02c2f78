"""What golden cases cannot show of llama3_json, llama4_pythonic and pythonic: when something goes out, and what not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from derender_core import (
    Delta,
    Event,
    ParseContext,
    PositionalCallMachine,
    State,
    Text,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    fold_message,
    load_parser,
    merge_events,
)

PARSERS = ("llama3_json", "llama4_pythonic", "pythonic")
TOOLS = (Tool("dial"), Tool("get-time"))


def stream(
    name: str, *texts: str, mode: Any = "arguments", reason: str | None = None, final: bool = False
) -> list[list[Event]]:
    """What each text gives; the last one is final when ``final`` is set."""
    parser, context = load_parser("tool", name), ParseContext(tools=TOOLS, stream_tool_calls=mode)
    state: State | None = None
    given = []
    for number, text in enumerate(texts, 1):
        is_last = final and number == len(texts)
        step = parser.parse_delta(state, Delta(text, final=is_last, finish_reason=reason if is_last else None), context)
        state = json.loads(json.dumps(step.state))
        assert parser.check_state(state) is None
        given.append(merge_events(step.events))
    return given


@pytest.mark.parametrize("tagged", ["", "<|python_tag|>"])
def test_a_call_is_announced_when_its_arguments_begin(tagged: str) -> None:
    assert stream(
        "llama3_json", tagged + '{"name": "di', 'al", "parameters": ', '{"number', '": "1"}', "}", "; ", final=True
    ) == [
        [],
        [],
        [ToolCallStart(0, "dial"), ToolCallArguments(0, '{"number')],
        [ToolCallArguments(0, '": "1"}')],
        [ToolCallEnd(0)],
        [],
    ]


def test_a_call_is_sent_at_once_when_its_object_ends() -> None:
    assert stream("llama3_json", '{"name": "dial", "parameters": {}', "}", mode="whole") == [
        [],
        [ToolCallStart(0, "dial"), ToolCallArguments(0, "{}"), ToolCallEnd(0)],
    ]


@pytest.mark.parametrize(
    "output",
    [
        '{"parameters": {"name": "dial", "arguments": {',
        '{"function": {"name": "dial", "parameters": {',
        '[{"name": "dial", "parameters": {',
        '```json\n{"name": "dial", "parameters": {',
        '{"name": "dial", "parameters": "{',
    ],
)
def test_what_may_still_be_something_else_is_not_announced(output: str) -> None:
    assert stream("llama3_json", output) == [[]]


def test_function_tags_are_announced_with_their_arguments() -> None:
    assert stream("llama3_json", "<function=dial>", ' {"n": 1', "}", "</func", "tion> ok") == [
        [],
        [ToolCallStart(0, "dial"), ToolCallArguments(0, '{"n": 1')],
        [ToolCallArguments(0, "}"), ToolCallEnd(0)],
        [],
        [Text(" ok")],
    ]


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("llama3_json", "Hello"),
        ("llama3_json", "{'a"),
        ("llama3_json", "{x"),
        ("llama3_json", "[1"),
        ("llama3_json", '["'),
        ("llama3_json", "<b"),
        ("llama3_json", "<function=x"),
        ("llama3_json", "```p"),
        ("llama3_json", "```json\n["),
        ("llama3_json", '{"name": "Ada", "born": 18'),
        ("llama3_json", '{"name": 1, "par'),
        ("llama3_json", "```json\n" + '{"name": "Ada", "a": [1'),
        ("pythonic", "[x]"),
        ("pythonic", "[1"),
        ("pythonic", "[dials"),
        ("pythonic", "[dial]"),
        ("pythonic", "[dial "),
        ("pythonic", "[see(x"),
        ("pythonic", "a\n[ ] b"),
        ("pythonic", "{"),
        ("llama4_pythonic", "['"),
        ("llama4_pythonic", '{"name": "Ada", "born": 18'),
    ],
)
def test_what_cannot_be_a_call_goes_out_at_once(name: str, output: str) -> None:
    held = output.endswith("dial ")
    assert stream(name, output) == [[] if held else [Text(output)]]


CALL = '{"name": "dial", "parameters": {}}'


@pytest.mark.parametrize(
    ("name", "pieces", "content", "calls"),
    [
        # a tag inside a string of an object that was let go of is data; behind the object it is a tag
        ("llama3_json", ['{"name": "Ada", "a": "<|python', "_tag|>{", '"} ', f"<|python_tag|>{CALL}"],
         '{"name": "Ada", "a": "<|python_tag|>{"} ', ["dial"]),
        # broken JSON: the rest is text, whatever it looks like, but for the ends of messages
        ("llama3_json", ['{"name": "Ada", ', "x <|python_tag|>", CALL, "<|eot_id|>"],
         '{"name": "Ada", x <|python_tag|>' + CALL, []),
        ("llama3_json", ["{", "x", f" <|python_tag|>{CALL}"], "{x <|python_tag|>" + CALL, []),
        # an end of message inside an object that was let go of
        ("llama3_json", ['{"name": "Ada", ', "<|eot", f"_id|>; <|python_tag|>{CALL}"], '{"name": "Ada", ; ', ["dial"]),
        # the first of two names counts
        ("llama3_json", ['{"name": "Ada", "name": "dial", ', '"parameters": {}}'],
         '{"name": "Ada", "name": "dial", "parameters": {}}', []),
        # a message that the model ran on into may begin with a call
        ("llama3_json", ["Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", CALL], "Hi", ["dial"]),
        ("llama3_json", [CALL, "<|start_header_id|>assistant<|end_header_id|>\n\n", CALL], None, ["dial"] * 2),
        ("llama3_json", [CALL, "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n", CALL], None, ["dial"]),
        ("llama3_json", [CALL, " <|start_header_id|>", "assi"], None, ["dial"]),
        # the tag holds for all calls of a run, and vanishes where none follows
        ("llama3_json", ['<|python_tag|>{"name": "a", "parameters": {}};', '{"name": "b", "parameters": {}}; b'],
         "; b", ["a", "b"]),
        ("llama3_json", [CALL, "; <|python_tag|>", " x"], ";  x", ["dial"]),
        ("llama3_json", ["<function=dial>{}", "</function>", "</function> x"], " x", ["dial"]),
        ("llama3_json", ["x </function>"], "x </function>", []),
        ("llama3_json", [f"```json {CALL} ", "```<|eot_id|>\n"], None, ["dial"]),
        ("llama3_json", [f"```json {CALL} ", "``"], None, ["dial"]),
        ("llama3_json", [f"```json {CALL} ", "`` x"], f"```json {CALL} `` x", []),
        ("llama3_json", [f"{CALL} ```json {CALL}```"], f" ```json {CALL}```", ["dial"]),
        ("llama4_pythonic", ["Hi <|python_start|>", "[dial()] \n", "<|python_end|>\n[dial()]"], "Hi \n", ["dial"] * 2),
        ("llama4_pythonic", ["Hi\n[dial()] \n", "Ho"], "Hi\n \nHo", ["dial"]),
        ("llama4_pythonic", ["<|python_start|>", CALL, "; ", CALL, "<|python_end|>"], None, ["dial"] * 2),
        ("llama4_pythonic", ["<|python_start|>print(1)", "<|python_end|>"], "print(1)", []),
        ("llama4_pythonic", ["<|python_start|>[dial('1')]", "<|python_end|>"], "[dial('1')]", []),
        ("pythonic", ["[x\n[dial()]"], "[x\n", ["dial"]),
        ("pythonic", ["[dial(x='1') [dial()]"], None, []),
        ("pythonic", ["[dial(x=1)]", "[dial(x=1)]"], "[dial(x=1)]", ["dial"]),
        ("pythonic", ["  a\n  [dial(x=1)]"], "  a\n  [dial(x=1)]", []),
        ("pythonic", ["[" + " " * 600, "dial()]"], "[" + " " * 600 + "dial()]", []),
    ],
)  # fmt: skip
def test_where_calls_are_found(name: str, pieces: list[str], content: str | None, calls: list[str]) -> None:
    whole = "".join(pieces)
    for texts in (pieces, [whole], list(whole)):
        events = stream(name, *texts, mode="whole", reason="stop", final=True)
        message = fold_message([event for one in events for event in one])
        assert message.content == content
        assert [call.name for call in message.tool_calls] == calls


@pytest.mark.parametrize(
    ("output", "reason", "content"),
    [
        ('[{"name": "dial", "parameters": {"n', "length", None),
        ('[{"name": "Ada", "parameters": {"n', "length", '[{"name": "Ada", "parameters": {"n'),
        ('[{"name": "dial", "parameters": {"n', "stop", '[{"name": "dial", "parameters": {"n'),
        ('<|python_tag|>[{"name": "Ada"', "stop", None),
        ("<function=dial>", "stop", None),
        ('<function=dial>{"n": ', "stop", None),
        ("<function=di", "length", "<function=di"),
        ('```json\n{"name": "dial", "parameters": ', "length", None),
        ('```json\n{"name": "dial", "parameters": ', "stop", '```json\n{"name": "dial", "parameters": '),
        ('{"name": "dial", "parameters": {<|eot_id|>', "length", '{"name": "dial", "parameters": {'),
        ('<|python_tag|>{"name": "dial", "parameters": {<|eot_id|>', "stop", None),
        ("a <|python_tag|>  ", "stop", "a "),
    ],
)
def test_cut(output: str, reason: str, content: str | None) -> None:
    for texts in ([output], list(output)):
        events = stream("llama3_json", *texts, mode="whole", reason=reason, final=True)
        message = fold_message([event for one in events for event in one])
        assert (message.content, message.tool_calls) == (content, ())


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize("name", ["pythonic", "llama4_pythonic"])
def test_a_python_list_is_sent_whole(name: str, mode: str) -> None:
    assert stream(name, "[dial(x=1), ", "get-time(", ")", "]", mode=mode) == [
        [],
        [],
        [],
        [
            ToolCallStart(0, "dial"),
            ToolCallArguments(0, '{"x": 1}'),
            ToolCallEnd(0),
            ToolCallStart(1, "get-time"),
            ToolCallArguments(1, "{}"),
            ToolCallEnd(1),
        ],
    ]


def test_what_the_plugins_declare() -> None:
    context = ParseContext(tools=TOOLS)
    llama3, llama4, plain = (load_parser("tool", name) for name in PARSERS)
    assert llama3.tool_call_openers(context) == ("<|python_tag|>",)
    assert llama4.tool_call_openers(context) == ("<|python_start|>",)
    assert plain.tool_call_openers(context) == ()
    assert {"<|eom_id|>", "<|eot_id|>", "<|python_tag|>"} < set(llama3.special_tokens(context))
    assert {"<|eom|>", "<|eot|>", "<|python_end|>"} < set(llama4.special_tokens(context))
    assert plain.special_tokens(context) == ()


def test_structural_tag() -> None:
    schema = {"type": "object"}
    tools = [Tool("dial", schema, strict=True), Tool('say "hi"', schema)]
    parser = load_parser("tool", "llama3_json")
    assert parser.structural_tag(tools, "auto") is None
    assert parser.structural_tag(tools, "none") is None
    node = parser.structural_tag(tools, "required")
    assert node is not None
    assert node["separator"] == "; "
    assert [(tag["begin"], tag["content"]["json_schema"], tag["end"]) for tag in node["tags"]] == [
        ('{"name": "dial", "parameters": ', schema, "}"),
        ('{"name": "say \\"hi\\"", "parameters": ', True, "}"),
    ]
    named = parser.structural_tag(tools, "function:dial")
    assert named is not None
    assert named["stop_after_first"] is True
    assert len(named["tags"]) == 1


FIELDS: dict[str, list[Any]] = {
    "scan": ["|v", "|.", "|!", "{|K", "{|:", "{|,", "{|v", "{{|v", "{|s", "{|S\\", "[|V", "{|n0", "{|lrue"],
    "lexed": ["", "|", "[|", "[(|'", "[(|s'\\", '[(|t"2', "|!"],
    "key": ["", "name", "arguments", "parameters"],
    "name": ["", "dial", "zz"],
    "calls": [0, 1],
    "sending": ["", "", "arguments", "sent"],
    "held": ["", " "],
    **{flag: [False, True] for flag in ("tagged", "after", "refused", "spoke", "removed")},
}
PIECES = [CALL, "[dial(n=1)]", "<|python_tag|>", "<|python_start|>", "<|eot_id|>", "<|start_header_id|>", "assistant",
          "<function=dial>", "</function>", "```json", "```", '{"name": "dial"', '"parameters": {', "{", "}", "[", "]",
          "(", ")", "'", '"', "\\", ",", ";", " ", "\n", "dial", "x=1", "<"]  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
def test_no_state_that_is_accepted_makes_it_raise(name: str) -> None:
    rng = random.Random(name)
    parser = load_parser("tool", name)
    machine: type[PositionalCallMachine] = parser.plugin.machine  # type: ignore[attr-defined]
    phases = sorted(key.removeprefix("read_") for key in dir(machine) if key.startswith("read_"))
    fields = set(machine.load(None).__dict__)
    accepted = 0
    for _ in range(4000):
        buffer = "".join(rng.choices(PIECES, k=rng.randint(0, 6)))
        ahead = rng.randint(0, len(buffer))
        state: State = {"phase": rng.choice(phases), "buffer": buffer, "ahead": ahead}
        state |= {key: rng.choice(values) for key, values in FIELDS.items() if key in fields and rng.random() < 0.7}
        state |= {key: rng.randint(0, ahead) for key in ("body", "mark", "complete") if key in fields}
        if parser.check_state(state) is not None:
            continue
        accepted += 1
        context = ParseContext(tools=TOOLS, stream_tool_calls=rng.choice(("whole", "arguments")))
        after = parser.parse_delta(state, Delta("".join(rng.choices(PIECES, k=3))), context).state
        parser.parse_delta(after, Delta("", final=True, finish_reason=rng.choice(("stop", "length"))), context)
    assert accepted > 1000


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("llama3_json", {"complete": 1}),
        ("llama3_json", {"phase": "head"}),
        ("llama3_json", {"lexed": ""}),
        ("llama3_json", {"tagged": 1}),
        ("pythonic", {"lexed": "]|"}),
        ("pythonic", {"lexed": None}),
        ("pythonic", {"body": 1}),
    ],
)
def test_odd_states_are_refused(name: str, state: State) -> None:
    assert load_parser("tool", name).check_state(state) is not None
