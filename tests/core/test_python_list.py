"""``PythonListMachine``: Python calls, in lists and by themselves, at all cuts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from derender_core import Delta, MachinePlugin, ParseContext, PythonListMachine, Tool, fold_message, make_parser
from derender_core.testing import all_cuts, assert_laws, feed


@dataclass
class Closed(PythonListMachine):
    """Between markers."""

    openers = ("<py>",)
    closers = ("</py>",)


@dataclass
class Lists(Closed):
    """Lists only."""

    lines = False


@dataclass
class Leading(PythonListMachine):
    """Behind a marker, or where the answer begins; offered functions only."""

    openers = ("<py>",)
    leads = True
    any_name = False


MACHINES = {
    machine.__name__: make_parser("tool", machine.__name__, MachinePlugin(machine, tool_call_openers=("<py>",)))
    for machine in (Closed, Lists, Leading)
}
TOOLS = (Tool("ping"), Tool("pong"), Tool("pi-ng"))
PING, PONG = ("ping", '{"a": 1}'), ("pong", "{}")
JSON = '{"name": "ping", "arguments": {"a": 1}}'

CASES = [
    ("Closed", "<py>ping(a=1)\npong()</py> end", "stop", "end", [PING, PONG]),
    ("Closed", "<py>[ping(a=1), pong()]</py> end", "stop", "end", [PING, PONG]),
    ("Closed", f"<py>{JSON}\npong()\n{JSON}</py>", "stop", None, [PING, PONG, PING]),
    ("Closed", f"<py>[{JSON}, {JSON}]</py>", "stop", None, [PING, PING]),
    ("Closed", "<py>[]</py> end", "stop", "end", []),
    ("Closed", "<py>[other.name()]</py>", "stop", None, [("other.name", "{}")]),
    ("Closed", "<py>pi-ng(s='</py>')</py>", "stop", None, [("pi-ng", '{"s": "</py>"}')]),
    ("Closed", "<py>ot-her()</py>", "stop", "<py>ot-her()</py>", []),
    ("Closed", "<py>ping(1)\nping(a=1)</py>", "stop", "ping(1)", [PING]),
    ("Closed", "<py>ping(a=1)\nping(1)</py>", "stop", "ping(1)", [PING]),
    ("Closed", "<py>[ping(a=1), pong(1)]</py> end", "stop", "<py>[ping(a=1), pong(1)]</py> end", []),
    ("Closed", "<py>[ping(a=1)</py> end", "stop", "<py>[ping(a=1)</py> end", []),
    ("Closed", "<py>ping(a='1)</py> end", "stop", "<py>ping(a='1)</py> end", []),
    ("Closed", "<py>ping(a='1)</py> <py>pong()</py>", "stop", "<py>ping(a='1)</py>", [PONG]),
    ("Closed", "<py>ping(a=1)", "length", None, [PING]),
    ("Closed", "<py>ping(a=1)\npo", "length", None, [PING]),
    ("Closed", "<py>ping(a=1)\npong(", "stop", None, [PING]),
    ("Closed", "Yes. <py>[ping(a=1), po", "length", "Yes.", []),
    ("Closed", "<py>[ping(a=1)]</p", "length", None, [PING]),
    ("Closed", "<py>[1, 2]</py>", "stop", "<py>[1, 2]</py>", []),
    ("Closed", "<py>" + "p" * 600, "stop", "<py>" + "p" * 600, []),
    ("Closed", "ping(a=1)", "stop", "ping(a=1)", []),
    ("Closed", f"<py>ping(a=1), pong(),\n{JSON},</py> end", "stop", "end", [PING, PONG, PING]),
    ("Closed", "<py>ping(a=1), and so on</py>", "stop", ", and so on", [PING]),
    ("Leading", "ping (a=1) is a call", "stop", "ping (a=1) is a call", []),
    ("Lists", "<py>[ping(a=1), pong()]</py>", "stop", None, [PING, PONG]),
    ("Lists", "<py>ping(a=1)</py>", "stop", "<py>ping(a=1)</py>", []),
    ("Leading", "ping(a=1)\npong()\nend", "stop", "end", [PING, PONG]),
    ("Leading", " [ping(a=1), pong()] end", "stop", "end", [PING, PONG]),
    ("Leading", "[ping(a=1), other()]", "stop", "[ping(a=1), other()]", []),
    ("Leading", "ping(a=1) other()", "stop", "other()", [PING]),
    ("Leading", "other()", "stop", "other()", []),
    ("Leading", "ping pong", "stop", "ping pong", []),
    ("Leading", "pin", "stop", "pin", []),
    ("Leading", "ping(1)", "stop", "ping(1)", []),
    ("Leading", "ping(a=", "length", None, []),
    ("Leading", "ping(a=", "stop", "ping(a=", []),
    ("Leading", "[ping(a=1), pi", "length", None, []),
    ("Leading", "<py>ping(a=1) end", "stop", "end", [PING]),
    ("Leading", "<py>other()", "stop", "<py>other()", []),
]


@pytest.mark.parametrize(("name", "text", "reason", "content", "calls"), CASES)
def test_lists(name: str, text: str, reason: str, content: str | None, calls: list[tuple[str, str]]) -> None:
    output = Delta(text, final=True, finish_reason=reason)
    for cut in all_cuts(output, pairs=len(text) < 100):
        message = fold_message(feed(MACHINES[name], cut, ParseContext(tools=TOOLS)).events)
        assert message.content == content, cut.name
        assert [(call.name, call.arguments) for call in message.tool_calls] == calls, cut.name


def test_text_that_cannot_become_a_call_is_sent_at_once() -> None:
    for text in ("[see ", "pint", "ping it", "[1"):
        step = MACHINES["Leading"].parse_delta(None, Delta(text), ParseContext(tools=TOOLS))
        assert not step.state.get("buffer"), text


@pytest.mark.parametrize("name", MACHINES)
def test_laws(name: str) -> None:
    markers = ("<py>", "</py>", "ping(a=1)", "pong()", "ping(", "[", "]", ")", "'", ",", JSON)
    assert_laws(MACHINES[name], soup=150, markers=markers)
