"""The command line."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from importlib.metadata import version

import httpx
import pytest
from click.testing import CliRunner

from derender_server import cli, serving
from derender_server.settings import Settings

COMMAND = [sys.executable, "-m", "derender_server.cli"]


@pytest.fixture
def served(monkeypatch):
    """The settings that ``serve`` would have run with."""
    seen = []
    monkeypatch.setattr(serving, "run", lambda settings: seen.append(settings) or 0)
    monkeypatch.setattr(serving, "set_up_logging", lambda _: None)
    for name in list(os.environ):
        if name.startswith("DERENDER_"):
            monkeypatch.delenv(name)
    return seen


def run(*arguments, env=None):
    return CliRunner().invoke(cli.main, list(arguments), env=env)


def test_version():
    assert run("version").output.strip() == version("derender")


def test_parsers_lists_slot_name_distribution_version_and_description():
    lines = run("parsers").output.splitlines()
    (hermes,) = [line for line in lines if line.split()[:2] == ["tool", "hermes"]]
    assert f"derender {version('derender')}" in hermes
    assert "tool_call" in hermes


def test_parsers_as_json():
    found = json.loads(run("parsers", "--json").output)
    assert {"slot": "reasoning", "name": "qwen3"}.items() <= next(
        one for one in found if one["name"] == "qwen3"
    ).items()
    assert all({"slot", "name", "distribution", "version", "description", "error"} == set(one) for one in found)


def test_flags_become_settings(served):
    done = run(
        "serve", "some/model", "--host", "::1", "--port", "9", "--served-model-name", "a", "--served-model-name", "b",
        "--tool-call-parser", "hermes", "--enable-auto-tool-choice", "--default-chat-template-kwargs", '{"x": 1}',
        "--max-model-len", "100", "--reasoning-field", "both", "--api-key", "k", "--stream-tool-calls", "whole",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (settings,) = served
    assert settings == Settings(
        model="some/model",
        host="::1",
        port=9,
        served_model_name=("a", "b"),
        tool_call_parser="hermes",
        enable_auto_tool_choice=True,
        default_chat_template_kwargs={"x": 1},
        max_model_len=100,
        reasoning_field="both",
        api_key=("k",),
        stream_tool_calls="whole",
    )


@pytest.mark.rule("7.4")
def test_every_setting_has_a_flag_and_a_variable():
    text = run("serve", "--help").output
    for name in Settings.model_fields.keys() - {"model"}:
        assert f"--{name.replace('_', '-')} " in text
        assert f"DERENDER_{name.upper()}" in re.sub(r"\s+", "", text)


@pytest.mark.rule("7.4")
def test_variables_stand_in_for_flags_and_flags_go_first(served):
    env = {
        "DERENDER_MODEL": "m",
        "DERENDER_PORT": "7",
        "DERENDER_SERVED_MODEL_NAME": "a b",
        "DERENDER_ENABLE_AUTO_TOOL_CHOICE": "1",
        "DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS": '{"y": 2}',
    }
    run("serve", env=env)
    run("serve", "n", "--port", "8", env=env)
    assert (served[0].model, served[0].port, served[0].served_model_name) == ("m", 7, ("a", "b"))
    assert served[0].enable_auto_tool_choice
    assert served[0].default_chat_template_kwargs == {"y": 2}
    assert (served[1].model, served[1].port) == ("n", 8)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--port", "70000"), "--port"),
        (("--default-chat-template-kwargs", "[1]"), "--default-chat-template-kwargs"),
        (("--default-chat-template-kwargs", "{"), "--default-chat-template-kwargs"),
        (("--reasoning-field", "x"), "--reasoning-field"),
    ],
)
def test_a_wrong_flag_is_named(served, arguments, named):
    done = run("serve", "demo", *arguments)
    assert done.exit_code == 2
    assert named in done.output
    assert not served


@pytest.mark.rule("7.6")
def test_a_tool_parser_without_auto_tool_choice_warns(served, caplog):
    with caplog.at_level(logging.WARNING, logger="derender"):
        run("serve", "m", "--tool-call-parser", "hermes")
        assert "--enable-auto-tool-choice" in caplog.text
        caplog.clear()
        run("serve", "m", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")
        run("serve", "demo")
        assert not caplog.text
    assert len(served) == 3


# -- real processes ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("7.5")
def test_an_unknown_parser_ends_the_start_with_the_nearest_name():
    done = subprocess.run([*COMMAND, "serve", "demo", "--tool-call-parser", "hermse"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Did you mean 'hermes'?" in done.stderr
    assert "Installed:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_not_there_ends_the_start_with_what_to_give():
    done = subprocess.run([*COMMAND, "serve", "./no/such/directory"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "tokenizer.json" in done.stderr
    assert "Traceback" not in done.stderr


class Running:
    """A server in a process of its own, and the one line that it logs."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([*COMMAND, "serve", "demo", *arguments], stderr=subprocess.PIPE, text=True)
        self.lines = [self.process.stderr.readline()]
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    @property
    def url(self):
        return re.search(r"https?://\S+?(?=[,\s]|$)", self.lines[0]).group()

    def stop(self, number):
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self.reader.join(timeout=30)
        self.process.stderr.close()
        return code


@pytest.mark.rule("7.3")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_logs_one_line_serves_and_stops(number):
    running = Running("--port", "0")
    for part in ("demo", "hermes", "qwen3", "vocabulary 4096", "max_model_len 32768"):
        assert part in running.lines[0]
    with httpx.Client(base_url=running.url) as client:
        until_up(client)
        assert client.get("/v1/models").json()["data"][0]["id"] == "demo"
    code = running.stop(number)
    assert code in (0, -number)
    assert len(running.lines) == 1, running.lines


def until_up(client):
    """Wait for the first answer; a test that hangs is ended by the runner."""
    while True:
        try:
            return client.get("/health")
        except httpx.TransportError:
            continue


def test_several_workers_share_a_port(free_port):
    running = Running("--port", str(free_port), "--workers", "2")
    assert "2 workers" in running.lines[0]
    with httpx.Client(base_url=running.url) as client:
        until_up(client)
        answer = client.post("/detokenize", json={"tokens": [1]})
        assert answer.status_code == 200
    running.stop(signal.SIGTERM)
    assert len(running.lines) == 1, running.lines


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
