"""``derender parsers --check``: what is wrong with each installed parser, with the others checked all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner, Result

from derender_server.cli import main
from derender_server.parser_check import Finding, check_parsers

Install = Callable[..., None]

BAD_CALL = "(ToolCallStart(0, 'ping'), ToolCallArguments(0, '[1]'), ToolCallEnd(0))"
HEAD = "from derender_core import *\n"

ECHO = (
    HEAD
    + """
class Echo:
    @hookimpl
    def derender_parse_delta(self, delta):
        return Step({}, (Text(delta.text),) if delta.text else ())

plugin = Echo()
"""
)


def parses(body: str) -> str:
    """A plugin whose ``derender_parse_delta`` is this."""
    hook = f"class Plugin:\n    @hookimpl\n    def derender_parse_delta(self, state, delta, context):\n        {body}"
    return f"{HEAD}\n{hook}\nplugin = Plugin()\n"


def asked(hook: str, result: str) -> str:
    """A plugin that echoes, and one of whose other hooks returns this."""
    return ECHO.replace("plugin = Echo()", f"Echo.{hook} = hookimpl(lambda self: {result})\nplugin = Echo()")


def found(name: str, seconds: float = 60) -> Finding:
    (finding,) = list(check_parsers([name], seconds))
    return finding


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["parsers", "--check", *arguments])


def test_all_built_in_parsers_are_fine() -> None:
    result = check("--json")
    findings = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {"hermes", "qwen3"} <= {finding["name"] for finding in findings}
    assert [finding for finding in findings if finding["problems"] or finding["notes"]] == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import nothing_like_it", "does not import: ModuleNotFoundError"),
        ("plugin = None", "the entry point names None"),
        (f"{HEAD}class Plugin: ...\nplugin = Plugin()", "does not implement derender_parse_delta"),
        (ECHO.replace("(self, delta)", "(self, delta, request)"), "there is no parameter 'request'"),
        (parses("return delta.text"), "returned from derender_parse_delta str, not a Step"),
        (parses("return Step({}, ('x',))"), "str among its events"),
        (parses("return Step({}, (ToolCallEnd(0),))"), "belongs to no open call"),
        (parses("return Step({}, (Text(''),))"), "is empty"),
        (parses("raise OSError('no disk')"), "raised OSError in derender_parse_delta: no disk"),
        (parses("exit(1)"), "raised SystemExit"),
        (parses("return Step({'seen': {1, 2}}, ())"), "the state is no JSON"),
        (parses("return Step({'seen': (1, 2)}, ())"), "the state changes in JSON"),
        (
            parses("state = state or {}; state['n'] = state.get('n', 0) + 1; return Step(state, ())"),
            "changed the state",
        ),
        (parses(f"return Step({{}}, () if state else {BAD_CALL})"), "are no JSON object"),
        (asked("derender_special_tokens", "'<think>'"), "returned from derender_special_tokens '<think>'"),
        (asked("derender_tool_call_openers", "('',)"), "it names an empty marker"),
        (asked("derender_structural_tag", "{'type': {1}}"), "structural tag for tool_choice 'auto' is no JSON"),
        (asked("derender_check_state", "'I do not like it'"), "check_state refuses the parser's own state"),
    ],
)
def test_what_is_wrong_is_said(install: Install, code: str, problem: str) -> None:
    install("acme", "mine = acme:plugin", code)
    finding = found("mine")
    assert (finding.slot, finding.distribution, finding.version) == ("tool", "acme", "1.2")
    assert any(problem in one for one in finding.problems), finding.problems


@pytest.fixture
def hangs(install: Install) -> Iterator[None]:
    """An installed parser that hangs until the test is over."""
    install("acme", "mine = acme:plugin", "import threading\nover = threading.Event()\n" + parses("over.wait()"))
    yield
    import acme  # type: ignore[import-not-found]  # written above

    acme.over.set()


@pytest.mark.usefixtures("hangs")
def test_a_parser_that_hangs_is_left_behind() -> None:
    finding = found("mine", seconds=2)
    assert finding.hangs
    assert finding.problems == ("it took longer than 2 s: it hangs, or is far too slow",)


@pytest.mark.usefixtures("hangs")
def test_a_parser_that_hangs_does_not_keep_the_command_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derender_server.parser_check.check_parsers", partial(check_parsers, seconds=1))
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    assert "took longer than 1 s" in check("mine").stdout
    assert ended == [1]


def test_a_parser_whose_answers_depend_on_the_cut_is_noted(install: Install) -> None:
    install(
        "acme",
        "mine = acme:plugin",
        parses("return Step({}, (Text(delta.text.strip()),) if delta.text.strip() else ())"),
    )
    finding = found("mine")
    assert finding.problems == ()
    assert any("other events than at once" in note for note in finding.notes)


def test_a_name_that_two_distributions_declare_is_noted_with_what_to_say(install: Install) -> None:
    install("acme", "mine = acme:plugin", ECHO)
    install("bolt", "mine = bolt:plugin", ECHO)
    assert found("acme:mine") == Finding(
        "tool",
        "acme:mine",
        "acme",
        "1.2",
        notes=("several distributions declare tool parser 'mine'; the flag needs 'acme:mine'",),
    )


def test_a_group_that_nobody_reads_is_told(install: Install) -> None:
    install("acme", "mine = acme:plugin", ECHO, group="tool_parser")
    finding = found("mine")
    assert finding.distribution == "acme"
    assert "'derender.tool_parser', which nobody reads" in finding.problems[0]
    assert "derender.tool_parsers" in finding.problems[0]


def test_the_table_and_the_exit_code(install: Install) -> None:
    install("acme", "mine = acme:plugin", parses("raise OSError('no disk')"))
    result = check("mine", "hermes")
    assert result.exit_code == 1
    heads, hermes, mine = result.stdout.splitlines()
    assert heads.split() == ["SLOT", "NAME", "FROM", "CHECK"]
    assert "no disk" in mine
    assert hermes.endswith("ok")
    findings: list[dict[str, Any]] = json.loads(check("--json", "hermes", "mine").stdout)
    assert [finding["name"] for finding in findings if finding["problems"]] == ["mine"]
    assert check("hermes").exit_code == 0


@pytest.mark.parametrize("flags", [["--check"], []])
def test_a_name_that_is_not_there_is_told(flags: list[str]) -> None:
    result = CliRunner().invoke(main, ["parsers", *flags, "nobody"])
    assert result.exit_code == 1
    assert "No parser is named nobody" in result.output
