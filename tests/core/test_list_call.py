"""``ListCallMachine``: lists of calls, element by element, at all cuts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from derender_core import Delta, ListCallMachine, MachinePlugin, ParseContext, Tool, fold_message, make_parser
from derender_core.testing import all_cuts, assert_laws, feed


@dataclass
class Marked(ListCallMachine):
    """Lists behind a marker."""

    openers = ("<list>",)
    trim = False


@dataclass
class Closed(ListCallMachine):
    """Lists between markers, or where the answer begins."""

    openers = ("<list>",)
    closers = ("</list>",)
    leads = True


@dataclass
class Tools(ListCallMachine):
    """Other keys."""

    openers = ("<list>",)
    name_key = "tool"
    argument_keys = streamed_keys = ("input",)


MACHINES = {
    machine.__name__: make_parser("tool", machine.__name__, MachinePlugin(machine, tool_call_openers=("<list>",)))
    for machine in (Marked, Closed, Tools)
}
TOOLS = (Tool("ping"), Tool("pong"))
A, B = '{"name": "ping", "arguments": {"a": 1}}', '{"arguments": {}, "name": "pong"}'
PING, PONG = ("ping", '{"a": 1}'), ("pong", "{}")
NO_CALL = '{"x": "]"}'

CASES = [
    ("Marked", f"<list>[{A}, {B}] end", "stop", " end", [PING, PONG]),
    ("Marked", f"one <list> [ {A} ]<list>{B}", "stop", "one ", [PING, PONG]),
    ("Marked", f"<list>{A}{A}", "stop", A, [PING]),
    ("Marked", "<list>[] end", "stop", " end", []),
    ("Marked", "<list>", "stop", None, []),
    ("Marked", "<list> no list", "stop", "<list> no list", []),
    ("Marked", f"<list>[{NO_CALL}] end", "stop", f"<list>[{NO_CALL}] end", []),
    ("Marked", f"<list>[{NO_CALL}, {A}] end", "stop", f"{NO_CALL} end", [PING]),
    ("Marked", f"<list>[{A}, {NO_CALL}, {B}] end", "stop", f"{NO_CALL} end", [PING, PONG]),
    ("Marked", f"<list>[{A}, nothing] end", "stop", "nothing] end", [PING]),
    ("Marked", f"<list>[{A} {B}] end", "stop", f"<list>[{A} {{{B[1:]}] end", []),
    ("Marked", f"<list>[{A}, {B}", "stop", None, [PING, PONG]),
    ("Marked", f"<list>[{A}, {B}", "length", None, [PING]),
    ("Marked", f"<list>[{A}, {B[:9]}", "length", None, [PING]),
    ("Marked", f"<list>[{A}, {B[:9]}", "stop", None, [PING]),
    ("Marked", f"<list>[{NO_CALL}, {A[:9]}", "stop", f"<list>[{NO_CALL}", []),
    ("Marked", f"[{A}]", "stop", f"[{A}]", []),
    ("Closed", f"<list>[{A}, {B}]\n</list>\nend", "stop", "end", [PING, PONG]),
    ("Closed", f"<list>[{A}]", "stop", None, [PING]),
    ("Closed", f"<list>[{A}] behind", "stop", "behind", [PING]),
    ("Closed", "<list>[] </list>", "stop", None, []),
    ("Closed", "<list>no</list> end", "stop", "<list>no</list> end", []),
    ("Closed", f"<list>[{NO_CALL}] </list> end", "stop", f"<list>[{NO_CALL}] </list> end", []),
    ("Closed", f" [{A}, {B}] end", "stop", "end", [PING, PONG]),
    ("Closed", f"{A}", "stop", None, [PING]),
    ("Closed", f" [{NO_CALL}, {A}]", "stop", f" [{NO_CALL}, {A}]", []),
    ("Closed", '[{"name": "other", "arguments": {}}]', "stop", '[{"name": "other", "arguments": {}}]', []),
    ("Closed", f"[{A}, {B[:9]}", "length", None, [PING]),
    ("Closed", "[1, 2]", "stop", "[1, 2]", []),
    ("Closed", "[", "stop", "[", []),
    ("Closed", f"[{A[:9]}", "stop", f"[{A[:9]}", []),
    ("Tools", '<list>[{"tool": "ping", "input": {"a": 1}}]', "stop", None, [PING]),
]


@pytest.mark.parametrize(("name", "text", "reason", "content", "calls"), CASES)
def test_lists(name: str, text: str, reason: str, content: str | None, calls: list[tuple[str, str]]) -> None:
    output = Delta(text, final=True, finish_reason=reason)
    for cut in all_cuts(output, pairs=True):
        message = fold_message(feed(MACHINES[name], cut, ParseContext(tools=TOOLS)).events)
        assert message.content == content, cut.name
        assert [(call.name, call.arguments) for call in message.tool_calls] == calls, cut.name


def test_an_announced_call_of_a_list_that_breaks_never_ends() -> None:
    text = f"<list>[{A} {B}] end"
    context = ParseContext(tools=TOOLS, stream_tool_calls="arguments")
    for cut in all_cuts(Delta(text, final=True, finish_reason="stop"), pairs=True):
        message = fold_message(feed(MACHINES["Marked"], cut, context).events)
        assert (message.content, message.tool_calls) == (f" {B}] end", ())


@pytest.mark.parametrize("name", MACHINES)
def test_laws(name: str) -> None:
    assert_laws(MACHINES[name], soup=150, markers=("<list>", "</list>", A, B, NO_CALL, "[", "]", ","))
