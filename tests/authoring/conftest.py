"""A distribution with a good parser and with one for each kind of fault, and a way to run commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from derender_core.registry import load_parser
from derender_server import cli

TOYS = '''
"""Calls are ``[[NAME]]``; what is no call is text."""

from derender_core import Step, Text, ToolCallArguments, ToolCallEnd, ToolCallStart, hookimpl


class Toy:
    """Calls in brackets."""

    arguments = "{}"

    @hookimpl
    def derender_tool_call_openers(self):
        return ("[[",)

    @hookimpl
    def derender_parse_delta(self, state, delta, context):
        state = dict(state or {"held": "", "calls": 0})
        buffer, events = state["held"] + delta.text, []
        while buffer:
            start = buffer.find("[[")
            if start:
                text = buffer if start < 0 else buffer[:start]
                if start < 0 and not delta.final and text.endswith("["):
                    text = text[:-1]
                if not text:
                    break
                events.append(Text(text))
                buffer = buffer[len(text) :]
                continue
            end = buffer.find("]]")
            if end < 0:
                break
            if buffer[2:end] == "ping":
                self.close("ping", events, state)
            else:
                events.append(Text(buffer[: end + 2]))
            buffer = buffer[end + 2 :]
        if delta.final and buffer:
            events.append(Text(buffer))
            buffer = ""
        return Step({**state, "held": buffer}, tuple(events))

    def close(self, name, events, state):
        index = state["calls"]
        events += [ToolCallStart(index, name), ToolCallArguments(index, self.arguments), ToolCallEnd(index)]
        state["calls"] += 1


class Late(Toy):
    """Sees a call only when it comes in one piece."""

    @hookimpl
    def derender_parse_delta(self, state, delta, context):
        if not delta.final and "[" in delta.text and "]" not in delta.text:
            return Step(state or {"held": "", "calls": 0}, (Text(delta.text),))
        return super().derender_parse_delta(state, delta, context)


class Leaky(Toy):
    """Gives the name out as text, too."""

    def close(self, name, events, state):
        events.append(Text(f"[[{name}]]"))
        super().close(name, events, state)


class Forgetful(Toy):
    """Has a state that JSON changes."""

    @hookimpl
    def derender_parse_delta(self, state, delta, context):
        step = super().derender_parse_delta(state, delta, context)
        return Step({**step.state, "pair": (1, 2)}, step.events)


class Garbled(Toy):
    """Gives arguments that are no JSON."""

    arguments = "{"


class Misfit(Toy):
    """Gives arguments that the tool does not take."""

    arguments = '{"times": "two"}'


class Raising(Toy):
    """Raises at question marks."""

    @hookimpl
    def derender_parse_delta(self, state, delta, context):
        if "?" in delta.text:
            raise RuntimeError("a question")
        return super().derender_parse_delta(state, delta, context)


toy, late, leaky, forgetful = Toy(), Late(), Leaky(), Forgetful()
garbled, misfit, raising = Garbled(), Misfit(), Raising()
'''
NAMES = ("toy", "late", "leaky", "forgetful", "garbled", "misfit", "raising")

PING = {"name": "ping", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}
CASES: tuple[dict[str, Any], ...] = (
    {
        "id": "call",
        "tools": [PING],
        "output": "On it: [[ping]]",
        "expected": {"content": "On it: ", "tool_calls": [{"name": "ping", "arguments": {}}]},
    },
    {"id": "text", "tools": [PING], "output": "Nothing.", "expected": {"content": "Nothing."}},
)


def write_corpus(path: Path, cases: Iterable[dict[str, Any]]) -> Path:
    """Write cases, one a line."""
    path.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases), encoding="utf-8")
    return path


@pytest.fixture
def toys(tmp_path: Path, install: Callable[..., None]) -> Path:
    """Installs the parsers ``NAMES``; gives the directory that has to be on the path."""
    install("toys", "\n".join(f"{name} = toys:{name}" for name in NAMES), TOYS)
    return tmp_path / "site"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A corpus of two cases that the parser ``toy`` passes."""
    return write_corpus(tmp_path / "golden.jsonl", CASES)


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., Path]:
    """``corpus({...}, ..., name="golden.jsonl")``: a corpus of these cases."""
    return lambda *cases, name="golden.jsonl": write_corpus(tmp_path / name, cases)


@pytest.fixture
def derender() -> Callable[..., Result]:
    """``derender("check", "toy", ...)``: a command in this process."""

    def run(*arguments: str | Path) -> Result:
        load_parser.cache_clear()
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def run_module(toys: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_module("pytest", ...)``: a module in a process of its own, which has the parsers, in ``tmp_path``."""

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "DERENDER"))}
        variables |= {"PYTHONPATH": str(toys), "COLUMNS": "120"}
        command = [sys.executable, "-m", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=variables)

    return run
