"""Servers that a benchmark starts, each stopped by its own handle."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from benchmarks.client import Connection, RequestError
from benchmarks.workload import ROOT, Model

__all__ = ["PARSERS", "Started", "start_command", "started"]

BYTECODE = ROOT / ".cache" / "bytecode"
"""Where servers that are started keep it."""

PARSERS = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}


class Started:
    """A server process.

    Args:
        process: its handle.
        url: where it listens.
    """

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def stop(self) -> None:
        """End the process, and wait for it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def started(model: Model, **settings: Any) -> Iterator[Started]:
    """Our server with the routes that do nothing.

    Args:
        model: what it serves.
        settings: more of its settings; the parsers are hermes and qwen3.
    """
    arguments = json.dumps({"max_model_len": model.max_model_len, **PARSERS, **settings})
    command = [sys.executable, "-m", "benchmarks.app", str(model.directory), arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    server = Started(process, "")
    try:
        assert process.stdout is not None
        server.url = process.stdout.readline().strip()
        if not server.url:
            raise RuntimeError("the server did not start; see above")
        wait_until_healthy(server)
        yield server
    finally:
        server.stop()


@contextmanager
def start_command(model: Model, flags: Sequence[str] = ()) -> Iterator[tuple[Started, float]]:
    """``derender serve``, as users start it, and the seconds until it first answered."""
    port = free_port()
    command = [sys.executable, "-m", "derender_server.cli", "serve", str(model.directory), "--port", str(port)]
    command += ["--max-model-len", str(model.max_model_len), "--tool-call-parser", "hermes"]
    command += ["--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--log-level", "warning", *flags]
    # As users have it, whose Python keeps the bytecode of what it imported.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))
    begun = time.perf_counter()
    server = Started(subprocess.Popen(command, cwd=ROOT, env=environment, text=True), f"http://127.0.0.1:{port}")
    try:
        wait_until_healthy(server)
        yield server, time.perf_counter() - begun
    finally:
        server.stop()


def wait_until_healthy(server: Started, seconds: float = 120.0) -> None:
    """Ask ``/health`` until it answers.

    Raises:
        RuntimeError: the process ended, or the time is over.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended with code {server.process.returncode}; see above")
        try:
            with closing(Connection(server.url, 5.0)) as connection:
                connection.get("/health")
                return
        except (OSError, RequestError):
            time.sleep(0.005)
    raise RuntimeError(f"{server.url} does not answer")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None where ``/proc`` does not tell."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            found = re.search(r"VmRSS:\s+(\d+) kB", status.read())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
