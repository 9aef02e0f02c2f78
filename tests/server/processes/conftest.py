"""Servers in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest


class Served:
    """``derender serve demo`` in a process of its own, and what it writes."""

    def __init__(self, flags: tuple[str, ...], env: dict[str, str]) -> None:
        command = [sys.executable, "-m", "derender_server.cli", "serve", "demo", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env}
        )
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        self.errors = [self.process.stderr.readline()]
        self.lines: list[str] = []
        self._readers = [
            threading.Thread(target=lambda: self.errors.extend(self.process.stderr or ()), daemon=True),
            threading.Thread(target=lambda: self.lines.extend(self.process.stdout or ()), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        found = re.search(r"http://([\d.]+):(\d+)", self.errors[0])
        assert found, self.errors
        self.address = (found[1], int(found[2]))
        self.url = found[0]
        self._until_up()

    def _until_up(self) -> None:
        while self.process.poll() is None:
            try:
                httpx.get(f"{self.url}/health")
            except httpx.TransportError:
                continue
            return
        raise AssertionError(self.errors)

    def connect(self) -> socket.socket:
        """A connection, for requests that no client sends."""
        return socket.create_connection(self.address, timeout=60)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it, and read the rest of what it writes; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        for reader in self._readers:
            reader.join(timeout=60)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """``serve("--flag", ..., env={})``: the demo in a process of its own, on a free port."""
    servers = []

    def start(*flags: str, env: dict[str, str] | None = None) -> Served:
        if "--port" not in flags:
            flags = ("--port", "0", *flags)
        servers.append(Served(flags, env or {}))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the next answer on a connection."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _receive(connection)
    head, _, body = got.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _receive(connection)
    return int(first.split()[1]), headers, body


def _receive(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "the connection was closed before the answer was complete"
    return piece


@pytest.fixture
def answer_of() -> Callable[[socket.socket], tuple[int, dict[str, str], bytes]]:
    """``answer_of(connection)``: status, headers and body of the next answer."""
    return read_answer
