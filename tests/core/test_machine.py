"""Machines: the buffer, markers, the loop, and the state."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core import (
    NEED_DATA,
    Call,
    Delta,
    Event,
    Machine,
    MachinePlugin,
    NeedData,
    ParseContext,
    Special,
    State,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolMachine,
    merge_events,
)

CONTEXT = ParseContext()


def run(machine: type[Machine], pieces: list[str], reason: str | None = None) -> list[Event]:
    """Feed these pieces, the last of them final, with the state checked and through JSON."""
    state: State | None = None
    events: list[Event] = []
    for at, piece in enumerate(pieces):
        final = at == len(pieces) - 1
        loaded = machine.load(state)
        events += loaded.feed(Delta(piece, final=final, finish_reason=reason if final else None), CONTEXT)
        state = json.loads(json.dumps(loaded.save()))
        assert machine.check(state) is None
    return merge_events(events)


@dataclass
class Shout(Machine):
    """Text between <b> and </b> in capitals."""

    count: int = 0

    def read_start(self) -> NeedData | None:
        text, marker = self.take_until("<b>")
        if text:
            self.emit(Text(text))
        if marker is None:
            return NEED_DATA
        self.count += 1
        self.phase = "bold"
        return None

    def read_bold(self) -> NeedData | None:
        text, marker = self.take_until("</b>", "<b>")
        if text:
            self.emit(Text(text.upper()))
        if marker is None:
            return NEED_DATA
        if marker == "</b>":
            self.phase = "start"
        return None


def test_cuts_do_not_matter() -> None:
    text = "a <b>b < c</b> d <b <b>e</b"
    expected = [Text("a B < C d <b E</B")]
    assert run(Shout, [text]) == run(Shout, list(text)) == run(Shout, [*text, ""]) == expected
    for at in range(len(text)):
        assert run(Shout, [text[:at], text[at:]]) == expected


def test_state_holds_what_differs_from_the_defaults() -> None:
    machine = Shout.load(None)
    assert machine.save() == {}
    machine.feed(Delta("x <b>y </"), CONTEXT)
    assert machine.save() == {"phase": "bold", "buffer": "</", "count": 1}
    assert Shout.load(machine.save()).save() == machine.save()


@dataclass
class Finder(Machine):
    """Only a buffer to look at."""

    def read_start(self) -> NeedData:
        return NEED_DATA


def finder(text: str, *, final: bool = False, specials: tuple[Special, ...] = ()) -> Finder:
    machine: Finder = Finder.load(None)
    machine.feed(Delta(text, specials, final), CONTEXT)
    return machine


markers = st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)


@given(st.text("ab<", max_size=12), markers, st.integers(0, 4), st.booleans())
@settings(max_examples=600)
def test_find_is_the_first_marker_or_the_longest_beginning_of_one_or_of_a_longer_one(
    text: str, names: list[str], offset: int, final: bool
) -> None:
    offset = min(offset, len(text))
    found = finder(text, final=final).find(tuple(names), offset)
    whole = [(text.find(name, offset), -len(name), name) for name in names if text.find(name, offset) >= 0]
    if whole:
        at, _, name = min(whole)
        may_grow = not final and any(other.startswith(text[at:]) and other != text[at:] for other in names)
        assert found == (at, None if may_grow else name)
        return
    begun = [at for at in range(offset, len(text)) if any(name.startswith(text[at:]) for name in names)]
    assert found == (min(begun, default=len(text)) if not final else len(text), None)


def test_find_nothing() -> None:
    assert finder("abc").find(()) == (3, None)
    assert finder("").find(("x",)) == (0, None)


def test_buffer_is_read_through_a_cursor() -> None:
    machine = finder("abcdef")
    assert (machine.take(2), machine.peek(2), machine.peek(2, 1), machine.waiting) == ("ab", "cd", "de", 4)
    machine.skip(1)
    assert machine.find(("f",)) == (2, "f")
    assert machine.starts("de") is True
    assert machine.starts("dx") is False
    assert machine.starts("defg") is None
    assert finder("de", final=True).starts("defg") is False
    assert (machine.take_rest(), machine.waiting, machine.take(5)) == ("def", 0, "")
    machine.skip(10)
    assert machine.waiting == 0


def test_special_tokens_move_with_the_buffer() -> None:
    @dataclass
    class Halves(Machine):
        def read_start(self) -> NeedData:
            self.emit_text(3)
            return NEED_DATA

    machine = Halves.load(None)
    events = machine.feed(Delta("ab[X]cd", (Special(2, 5, 9), Special(5, 6, 8))), CONTEXT)
    assert [event.specials for event in events] in ([()], [(Special(2, 5, 9),)])
    machine = Halves.load({"buffer": "[X]c", "specials": [[0, 3, 9]]})
    [event] = machine.feed(Delta("[Y]", (Special(0, 3, 7),)), CONTEXT)
    assert event.specials == (Special(0, 3, 9),)
    assert machine.save() == {"buffer": "c[Y]", "specials": [[1, 4, 7]]}


def test_a_reader_that_does_not_get_on_is_an_error() -> None:
    @dataclass
    class Stuck(Machine):
        def read_start(self) -> None:
            return None

    with pytest.raises(RuntimeError, match=r"Stuck\.read_start does not get on"):
        Stuck.load(None).feed(Delta("x"), CONTEXT)


def test_a_reader_may_change_a_field_first() -> None:
    @dataclass
    class Slow(Machine):
        ready: bool = False

        def read_start(self) -> NeedData | None:
            if not self.ready:
                self.ready = True
                return None
            return NEED_DATA

    assert Slow.load(None).feed(Delta("x"), CONTEXT) == []


def test_machines_that_cannot_be_saved_are_refused() -> None:
    @dataclass
    class NoDefault(Machine):
        phase: str = "nowhere"

    with pytest.raises(TypeError, match="read_nowhere"):
        NoDefault.load(None)


def test_the_state_handed_in_stays_as_it_was() -> None:
    @dataclass
    class Lists(Machine):
        seen: Any = None

        def read_start(self) -> NeedData:
            self.seen = self.seen or []
            self.seen.append(self.take_rest())
            return NEED_DATA

    state = {"seen": ["a"]}
    machine = Lists.load(state)
    machine.feed(Delta("b"), CONTEXT)
    assert (state, machine.save()) == ({"seen": ["a"]}, {"seen": ["a", "b"]})


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"other": 1}, "unknown field 'other'"),
        ({"count": "1"}, "'count' must be of type int"),
        ({"count": True}, "'count' must be of type int"),
        ({"count": -1}, "out of range"),
        ({"count": 1 << 50}, "out of range"),
        ({"phase": "nowhere"}, "unknown phase 'nowhere'"),
        ({"phase": 1}, "'phase' must be of type str"),
        ({"buffer": ["a"]}, "'buffer' must be of type str"),
        ({"specials": {}}, "must be a list"),
        ({"specials": [[0, 1]]}, "lists of three integers"),
        ({"specials": [[0, 1, True]]}, "lists of three integers"),
        ({"specials": [[0, 1, 5]]}, "outside the buffer"),
        ({"buffer": "ab", "specials": [[2, 1, 5]]}, "outside the buffer"),
    ],
)
def test_check_says_what_is_wrong(state: State, word: str) -> None:
    assert word in (Shout.check(state) or "")


def test_check_passes_what_it_saves() -> None:
    assert Shout.check({}) is None
    assert Shout.check({"phase": "bold", "count": 3, "buffer": "ab", "specials": [[0, 2, 5]]}) is None


def test_plugin_serves_a_machine() -> None:
    plugin = MachinePlugin(Shout, special_tokens=["<b>"])
    step = plugin.derender_parse_delta(None, Delta("a<b>b"), CONTEXT)
    assert step.events == (Text("a"), Text("B"))
    assert plugin.derender_parse_delta(step.state, Delta("c"), CONTEXT).events == (Text("C"),)
    assert plugin.description == "Text between <b> and </b> in capitals."
    assert plugin.derender_special_tokens() == ("<b>",)
    assert plugin.derender_check_state({"phase": "x"}) == "unknown phase 'x'"
    assert plugin.derender_prompt_opens_reasoning(None, CONTEXT) is None


@dataclass
class Bang(ToolMachine):
    """``!`` is a call, ``?`` a region that is dropped."""

    def read_start(self) -> NeedData | None:
        text, marker = self.take_until("!", "?")
        self.content(text)
        if marker is None:
            if self.final:
                self.end_content()
            return NEED_DATA
        self.removed = True
        if marker == "!":
            self.call(Call("f", "{}"))
        return None


@dataclass
class Verbatim(Bang):
    """As Bang, where white space around calls is the model's own."""

    trim = False


def called(index: int) -> list[Event]:
    return [ToolCallStart(index, "f"), ToolCallArguments(index, "{}"), ToolCallEnd(index)]


@pytest.mark.parametrize(
    ("text", "trimmed", "verbatim"),
    [
        (" a ", [Text(" a ")], [Text(" a ")]),
        (" \n", [Text(" \n")], [Text(" \n")]),
        ("a\n\n!", [Text("a"), *called(0)], [Text("a\n\n"), *called(0)]),
        ("\n!\n", called(0), called(0)),
        ("\n! a\n", [*called(0), Text("a")], [*called(0), Text("\n a\n")]),
        (" a ! b ! \n", [Text(" a"), *called(0), Text("  b"), *called(1)],
         [Text(" a "), *called(0), Text(" b "), *called(1), Text(" \n")]),
        ("a\n!\n!\nb ", [Text("a"), *called(0), *called(1), Text("\n\n\nb")],
         [Text("a\n"), *called(0), Text("\n"), *called(1), Text("\nb ")]),
        ("?", [], []),
        (" ? ", [], []),
        ("a ? ", [Text("a")], [Text("a  ")]),
    ],
)  # fmt: skip
def test_white_space_around_calls(text: str, trimmed: list[Event], verbatim: list[Event]) -> None:
    for machine, expected in ((Bang, trimmed), (Verbatim, verbatim)):
        assert run(machine, [text]) == expected
        assert run(machine, [*text, ""]) == expected


def test_white_space_between_calls_is_not_kept_before_the_first_word() -> None:
    machine = Bang.load(None)
    machine.feed(Delta("!\n" * 1000), CONTEXT)
    assert machine.save() == {"calls": 1000, "removed": True}
