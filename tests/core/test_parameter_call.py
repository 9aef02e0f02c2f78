"""What a machine with a tag for each parameter sends, delta by delta, and what it does with states from outside."""

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from derender_core import (
    AttributeTagMachine,
    Delta,
    Event,
    FunctionTagMachine,
    MachinePlugin,
    PairTagMachine,
    ParseContext,
    Parser,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    fold_message,
    make_parser,
)
from derender_core.attribute_tags import read_attributes

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = (Tool("f", SCHEMA), Tool("g"))


@dataclass
class Functions(FunctionTagMachine):
    """Qwen's tags."""

    section_openers = ("<calls>",)
    section_closers = ("</calls>",)


@dataclass
class Attributes(AttributeTagMachine):
    """Tags with attributes, calls by themselves."""

    section_openers = ()
    section_closers = ()
    call_openers = ("<call",)
    call_closers = ("</call>",)
    parameter_openers = ("<arg",)
    parameter_closers = ("</arg>",)
    explicit = True


@dataclass
class Pairs(PairTagMachine):
    """Keys and values in tags, a marker behind the name."""

    section_openers = ()
    section_closers = ("</call>",)
    call_openers = ("<call>",)
    call_closers = ("</call>",)
    parameter_openers = ("<k>",)
    parameter_closers = ("</v>",)
    key_closers = ("</k>",)
    value_openers = ("<v>",)
    name_ends = ("<sep>",)


def parser(machine: type[Any]) -> Parser:
    return make_parser("tool", machine.__name__, MachinePlugin(machine))


def stream(machine: type[Any], *texts: str, mode: str = "arguments", reason: str = "stop") -> list[list[Event]]:
    """The events of each delta; an empty last one ends the output."""
    context = ParseContext(tools=TOOLS, stream_tool_calls=mode)  # type: ignore[arg-type]
    state, steps = None, []
    for at, text in enumerate((*texts, "")):
        final = at == len(texts)
        step = parser(machine).parse_delta(state, Delta(text, (), final, reason if final else None), context)
        state = json.loads(json.dumps(step.state))
        assert parser(machine).check_state(state) is None
        steps.append(list(step.events))
    return steps


def fragments(steps: list[list[Event]]) -> list[str]:
    return ["".join(e.fragment for e in events if isinstance(e, ToolCallArguments)) for events in steps]


# -- text that grows ---------------------------------------------------------------------------------------------------


def test_a_string_is_sent_while_it_grows_and_its_framing_is_not() -> None:
    steps = stream(
        Functions, "<calls>\n<function=f>\n<parameter=text>", "\n", "one ", '"two"\n', "three", "\n</para", "x\n",
        "</parameter>", "\n</function>\n</calls>",
    )  # fmt: skip
    assert fragments(steps) == ["", "", '{"text": "one ', '\\"two\\"', "\\nthree", "", "\\n</parax", "", '"}', ""]
    assert steps[0] == [ToolCallStart(0, "f")]
    assert steps[-2][-1] == ToolCallEnd(0)
    assert fold_message([e for step in steps for e in step]).tool_calls[0].arguments == json.dumps(
        {"text": 'one "two"\nthree\n</parax'}
    )


def test_what_is_no_string_is_sent_whole() -> None:
    steps = stream(Functions, "<calls><function=f><parameter=n>1", "2", "3</parameter>", "<parameter=text>", "a", "</")
    assert fragments(steps)[:5] == ["", "", "", '{"n": 123', ', "text": "a']


def test_nothing_grows_when_calls_come_whole() -> None:
    steps = stream(Functions, "<calls><function=f><parameter=text>a", "b</parameter></function>", mode="whole")
    assert fragments(steps) == ["", '{"text": "ab"}', ""]


def test_a_closer_that_turns_out_to_be_text_is_sent_when_it_does() -> None:
    steps = stream(Functions, "<calls><function=f><parameter=text>a</parameter>", "  ", "b", "</parameter></function>")
    assert fragments(steps) == ['{"text": "a', "", "</parameter>  b", '"}', ""]


def test_an_empty_string_and_one_of_framing_alone() -> None:
    for value in ("", "\n", "\n\n"):
        steps = stream(Functions, "<calls><function=f><parameter=text>", *value, "</parameter>", "</function>")
        assert "".join(fragments(steps)) == '{"text": ""}'


def test_the_state_of_a_growing_string_stays_small() -> None:
    context = ParseContext(tools=TOOLS, stream_tool_calls="arguments")
    state, largest = None, 0
    for text in ("<calls><function=f><parameter=text>", *["words of a long text\n"] * 500):
        state = parser(Functions).parse_delta(state, Delta(text), context).state
        largest = max(largest, len(json.dumps(state)))
    assert largest < 300


# -- heads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (' name="a b" ', {"name": "a b"}),
        (" name='a' kind=b", {"name": "a", "kind": "b"}),
        (' name = "a"\tname="b"', {"name": "a"}),
        (' name=""', {"name": ""}),
        (' name="a', None),
        (" name", None),
        ("name=a", None),
        (" =a", None),
    ],
)
def test_attributes(text: str, expected: dict[str, str] | None) -> None:
    assert read_attributes(text) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('<call name="g"/>', [("g", {})]),
        ("<call  name=g ></call>", [("g", {})]),
        ('<call name="g"><arg name="a"/><arg name="b">1</arg></call>', [("g", {"a": "", "b": "1"})]),
        ('<call kind="x" name="other"></call>', [("other", {})]),
        ("<calling>", []),
        ('<call name="g"', []),
    ],
)
def test_attribute_tags(output: str, expected: list[tuple[str, Any]]) -> None:
    message = fold_message([e for step in stream(Attributes, *output, mode="whole") for e in step])
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == expected


@pytest.mark.parametrize(
    ("output", "calls", "content"),
    [
        ("<call>g<sep></call>", [("g", {})], None),
        ("<call>g<sep>\n<k>a</k><v>1</v></call>", [("g", {"a": "1"})], None),
        ("<call>g\n<k>a</k>\n<v>1</v></call>", [("g", {"a": "1"})], None),
        ("<call>g<k>a</k><v>1</v><sep></call>", [("g", {"a": "1</v><sep>"})], None),
        ("<call>g<k>a<v>1</v></call>", [], "<call>g<k>a<v>1</v></call>"),
        ("<call><sep></call>", [], "<call><sep></call>"),
        ("<call> f g</call> then", [], "<call> f g</call> then"),
        ("<call>g<k>a", [], None),
        ("<call>", [], None),
    ],
)
def test_pairs(output: str, calls: list[tuple[str, Any]], content: str | None) -> None:
    message = fold_message([e for step in stream(Pairs, *output, mode="whole") for e in step])
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == calls
    assert message.content == content


# -- states from outside -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"value": 3, "ahead": 2, "buffer": "abc"}, "'value'"),
        ({"ahead": 4, "buffer": "abc"}, "'ahead'"),
        ({"sent": True}, "'sent'"),
        ({"grown": True}, "'grown'"),
        ({"grows": True, "calls": 1}, "'grows'"),
        ({"phase": "nowhere"}, "phase"),
        ({"section": "no marker"}, "'section'"),
    ],
)
def test_states_that_are_refused(state: dict[str, Any], fault: str) -> None:
    assert fault in (parser(Functions).check_state(state) or "")


PHASES = ("content", "done", "head", "junk", "key", "parameters", "section", "value")
PIECES = (
    "<calls>",
    "</calls>",
    "<function=f>",
    "</function>",
    "<parameter=",
    "text>",
    "</parameter>",
    "\n",
    "a",
    '"',
    "<",
    '<call name="f">',
    "</call>",
    "<arg name='n'>",
    "</arg>",
    "<call>",
    "<k>",
    "</k>",
    "<v>",
    "</v>",
    "<sep>",
)


@pytest.mark.parametrize("machine", [Functions, Attributes, Pairs], ids=lambda machine: machine.__name__)
def test_no_state_that_is_accepted_makes_it_raise(machine: type[Any]) -> None:
    rng = random.Random(7)
    accepted = 0
    for _ in range(3000):
        buffer = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 6)))
        state = {
            "phase": rng.choice(PHASES),
            "buffer": buffer,
            "ahead": rng.randint(0, len(buffer)),
            "name": rng.choice("fgx"),
            "key": rng.choice(("text", "n", "")),
            "pairs": rng.choice(("", ",", '"a": 1', '"a": [', "[" * 300)),
            "value": rng.randint(0, 3),
            "calls": rng.randint(0, 1),
            "sent": rng.random() < 0.5,
            "grown": rng.random() < 0.3,
            "grows": rng.random() < 0.3,
            "section": rng.choice(("", "<calls>", "x")),
            "good": rng.random() < 0.5,
        }
        if parser(machine).check_state(state) is not None:
            continue
        accepted += 1
        for mode in ("whole", "arguments"):
            context = ParseContext(tools=TOOLS, stream_tool_calls=mode)  # type: ignore[arg-type]
            text = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 6)))
            step = parser(machine).parse_delta(state, Delta(text), context)
            parser(machine).parse_delta(step.state, Delta("", (), True, rng.choice(("stop", "length"))), context)
    assert accepted > 100
