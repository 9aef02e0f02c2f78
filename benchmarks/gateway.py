"""Many streams through the gateway: an engine that plays at a model's pace, and clients that check every answer.

Engine, gateway and clients are a process each. What an answer must be is known, so a stream is right or it is not: the
text that the engine was told to say, one finish reason, ``[DONE]``.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from urllib.parse import urlsplit

from benchmarks.report import Report, Sample, arguments, microseconds, milliseconds
from benchmarks.server import Started, free_port, resident_bytes, start_command, wait_until_healthy
from benchmarks.workload import ROOT, Model, encode, find_model, prose

__all__ = ["run"]

ROUTE = "/v1/chat/completions"
THOUGHT = "Well."
DONE = b"data: [DONE]\n\n"
HEAD_END = b"\r\n\r\n"
SPREAD = 1.0
"""Seconds over which the streams begin."""
PATIENCE = 60.0
"""Seconds that a stream may take beyond what its tokens take."""


@dataclass
class Outcome:
    """What became of the streams of the clients.

    Args:
        right: answers that were complete and as told.
        wrong: what was wrong with the others.
        gaps: seconds between reads of a stream, of every tenth stream.
        late: seconds that streams took beyond what their tokens take at the engine's pace.
    """

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)


def run(
    model: Model,
    *,
    quick: bool = False,
    streams: int = 500,
    tokens: int = 500,
    rate: float = 20,
    soak: float = 0,
    workers: int = 1,
) -> Report:
    """Measure, print and return it.

    Args:
        model: what is served.
        quick: a few streams for a few seconds.
        streams: at once.
        tokens: of each answer, a chunk each.
        rate: tokens a second of each stream.
        soak: seconds for which streams that end are replaced by new ones; 0 runs each once.
        workers: processes of the gateway.
    """
    report = Report("gateway", model.name)
    if quick:
        streams, tokens, rate = 20, 40, 40
    text, expected = _script(model, tokens)
    with (
        _engine(model, text, rate) as engine,
        start_command(model, ["--engine-url", engine.url, "--workers", str(workers)]) as (server, _),
    ):
        pids = _family(server.process.pid)
        at_start, before = _memory(pids), _processor(pids)
        begun = time.perf_counter()
        watch = _Watch(pids)
        body = encode({"messages": [{"role": "user", "content": "Go on."}], "stream": True, "max_tokens": tokens})
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as clients:
            outcome = clients.submit(_clients, server.url, body, expected, streams, tokens / rate, soak).result()
        took, used = time.perf_counter() - begun, _processor(pids) - before
        memory = watch.stop()
    done = outcome.right + len(outcome.wrong)
    chunks = outcome.right * tokens
    row = [done, outcome.right, f"{took:.1f}", f"{chunks / took:.0f}", microseconds(used / max(chunks, 1))]
    report.table(
        f"{streams} streams at once, {tokens} tokens each at {rate:g}/s, {workers} worker(s)",
        ("answers", "right", "seconds", "chunks/s", "processor us/chunk", "cores"),
        [[*row, f"{used / took:.2f}"]],
    )
    gaps, late = Sample(outcome.gaps), Sample(outcome.late)
    report.table(
        f"What clients see (a token takes {1e3 / rate:.0f} ms)",
        ("what", "median ms", "p99 ms", "longest ms"),
        [
            ["between reads", milliseconds(gaps.median), milliseconds(gaps.p99), milliseconds(max(gaps.times))],
            ["later than the engine", milliseconds(late.median), milliseconds(late.p99), milliseconds(max(late.times))],
        ],
    )
    report.table(
        "Memory of the gateway",
        ("at start MB", "most MB", "at the end MB"),
        [[f"{size / 2**20:.0f}" for size in (at_start, max(memory), memory[-1])]],
    )
    report.data["memory"] = memory
    if outcome.wrong:
        report.table("Wrong answers", ("what",), [[what] for what in sorted(set(outcome.wrong))[:20]])
        raise RuntimeError(f"{len(outcome.wrong)} of {done} answers were wrong; see above")
    return report


def _script(model: Model, tokens: int) -> tuple[str, str]:
    """What the engine says, and the content of which that is as many tokens."""
    start = f"<think>\n{THOUGHT}\n</think>\n\n"
    text = start + "".join(char for char in prose(2 * tokens) if char.isascii() and char not in "<{[")
    ids = model.tokenizer.encode(text)[:tokens]
    return text, model.tokenizer.decode(ids, skip_special_tokens=False).removeprefix(start)


@contextmanager
def _engine(model: Model, text: str, rate: float) -> Iterator[Started]:
    port = free_port()
    command = [sys.executable, "-m", "derender_server.cli", "demo-engine", str(model.directory), "--port", str(port)]
    command += ["--text", text, "--token-delay", str(1 / rate), "--max-model-len", str(model.max_model_len)]
    server = Started(subprocess.Popen(command, cwd=ROOT, text=True), f"http://127.0.0.1:{port}")
    try:
        wait_until_healthy(server)
        yield server
    finally:
        server.stop()


# -- clients -----------------------------------------------------------------------------------------------------------


class _Client(asyncio.Protocol):
    """One stream. What comes is kept, and looked at when it is over: clients share the cores with what is measured."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.received = bytearray()
        self.times: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.received += data
        self.times.append(time.perf_counter())
        if data.endswith(b"0\r\n\r\n"):
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the protocol
        """The stream is over."""
        if not self.over.done():
            self.over.set_result(None)


def _clients(url: str, body: bytes, expected: str, streams: int, seconds: float, soak: float) -> Outcome:
    """Run the streams; in a process of its own."""
    return asyncio.run(_all_streams(url, body, expected, streams, seconds, soak))


async def _all_streams(url: str, body: bytes, expected: str, streams: int, seconds: float, soak: float) -> Outcome:
    outcome = Outcome()
    end = time.perf_counter() + soak
    parts = urlsplit(url)
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    connect = asyncio.get_running_loop().create_connection

    async def one(number: int) -> None:
        await asyncio.sleep(SPREAD * number / streams)
        while True:
            begun = time.perf_counter()
            client = _Client(request)
            try:
                async with asyncio.timeout(seconds + PATIENCE):
                    await connect(partial(_itself, client), parts.hostname, parts.port)
                    await client.over
            except (OSError, TimeoutError) as error:
                outcome.wrong.append(repr(error))
                return
            wrong = _fault(bytes(client.received), expected)
            if wrong:
                outcome.wrong.append(wrong)
            else:
                outcome.right += 1
                outcome.late.append(client.times[-1] - begun - seconds)
            if number % 10 == 0:
                outcome.gaps += [later - earlier for earlier, later in pairwise(client.times)]
            if time.perf_counter() >= end:
                return

    await asyncio.gather(*map(one, range(streams)))
    return outcome


def _itself(client: _Client) -> _Client:
    return client


def _fault(received: bytes, expected: str) -> str:
    """What is wrong with an answer; empty when it is right."""
    head, _, rest = received.partition(HEAD_END)
    if not head.startswith(b"HTTP/1.1 200"):
        return f"answered {received[:200]!r}"
    pieces = []
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found:
            return "broke off"
        if int(size, 16) == 0:
            break
        pieces.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    stream = b"".join(pieces)
    if not stream.endswith(DONE) or stream.count(DONE) != 1:
        return "did not end with one [DONE]"
    events = [event for event in stream.removesuffix(DONE).split(b"\n\n") if event.startswith(b"data: ")]
    choices = [json.loads(event[6:])["choices"][0] for event in events]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    reasoning = "".join(choice["delta"].get("reasoning") or "" for choice in choices)
    if reasons != ["length"]:
        return f"finish reasons {reasons}"
    if (reasoning, content) != (THOUGHT, expected):
        return f"said {reasoning!r} and {content[:50]!r}... ({len(content)} characters, not {len(expected)})"
    return ""


# -- the gateway's processes -------------------------------------------------------------------------------------------


def _family(pid: int) -> list[int]:
    """A process and its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return [pid, *map(int, children.read().split())]
    except OSError:
        return [pid]


def _memory(pids: list[int]) -> int:
    return sum(resident_bytes(pid) or 0 for pid in pids)


def _processor(pids: list[int]) -> float:
    """Seconds of processor time so far; 0 where ``/proc`` does not tell."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                fields = re.sub(r"\(.*\)", "", stat.read()).split()
        except OSError:
            continue
        ticks += int(fields[12]) + int(fields[13])
    return ticks / os.sysconf("SC_CLK_TCK")


class _Watch:
    """Notes the memory of processes once a second."""

    def __init__(self, pids: list[int]) -> None:
        self._pids, self._stop, self._seen = pids, threading.Event(), [_memory(pids)]
        self._thread = threading.Thread(target=self._note)
        self._thread.start()

    def _note(self) -> None:
        while not self._stop.wait(1):
            self._seen.append(_memory(self._pids))

    def stop(self) -> list[int]:
        """What was noted, in bytes."""
        self._stop.set()
        self._thread.join()
        return [*self._seen, _memory(self._pids)]


def main() -> None:
    """The command."""
    parser = arguments(__doc__)
    parser.add_argument("--streams", type=int, default=500, help="at once")
    parser.add_argument("--tokens", type=int, default=500, help="of each answer")
    parser.add_argument("--rate", type=float, default=20, help="tokens a second of each stream")
    parser.add_argument("--soak", type=float, default=0, help="seconds for which new streams replace those that end")
    parser.add_argument("--workers", type=int, default=1, help="processes of the gateway")
    given = parser.parse_args()
    run(
        find_model(),
        quick=given.quick,
        streams=given.streams,
        tokens=given.tokens,
        rate=given.rate,
        soak=given.soak,
        workers=given.workers,
    ).close(given.json)


if __name__ == "__main__":
    main()
