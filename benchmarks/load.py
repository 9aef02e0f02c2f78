"""Many streams at once: throughput by workers, and how long ``/health`` waits while others work.

The streams run in a process of their own, so that what is measured is not the clients' interpreter. For the throughput
every connection has some requests under way all the time (HTTP/1.1 pipelining): clients and workers share the cores,
and a client that sends and reads one request at a time needs a fifth of them.
"""

from __future__ import annotations

import json
import multiprocessing
import selectors
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from statistics import median
from typing import Any, NamedTuple, TypeVar

from benchmarks.client import Connection
from benchmarks.oneshot import logprobs_of
from benchmarks.report import Report, Sample, arguments, milliseconds
from benchmarks.server import start_command
from benchmarks.workload import CHAT_REQUEST, Model, chat_body, chunk_body, find_model

__all__ = ["run"]

DERENDER = "/v1/chat/completions/derender"
CLIENTS = 20
UNDER_WAY = 8
"""Requests of a connection that are sent at once."""
PAUSE = 0.005
"""Seconds between two looks at the answers: a client that wakes for each of them takes several times the processor."""
HEALTH_MS = 50

T = TypeVar("T")


def run(model: Model, *, quick: bool = False, url: str | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("load", model.name)
    tokens, long_tokens = (64, 1500) if quick else (2048, 30_000)
    output = model.output(tokens)
    with start_command(model) as (one, _), start_command(model, ["--workers", "2"]) as (two, _):
        _responsive(report, one.url, model, output, long_tokens)
        rounds, seconds = (1, 0.3) if quick else (12, 2.0)
        loads = {
            "one worker": (one.url, _record(one.url, model, output), CLIENTS),
            "two workers": (two.url, _record(two.url, model, output), 2 * CLIENTS),
        }
        if url:
            loads["other"] = (url, _record(url, model, output[: 64 if quick else 256]), CLIENTS)
        _throughput(report, loads, rounds, seconds)
    return report


def _throughput(report: Report, loads: Mapping[str, tuple[str, list[bytes], int]], rounds: int, seconds: float) -> None:
    """Chunks a second of each server, taken in turn, and beside them what the machine gives two processes over one."""
    busy: dict[str, list[Busy]] = {name: [] for name in loads}
    gains = []
    for _ in range(rounds):
        for name, given in loads.items():
            busy[name].append(_in_process(_keep_busy, *given, seconds))
        gains.append(_in_processes(2, seconds / 4) / _in_processes(1, seconds / 4))
    rows = [
        [name, f"{median(each.rate for each in some):.0f}", f"{median(each.clients for each in some):.2f}"]
        for name, some in busy.items()
    ]
    report.table(f"{CLIENTS} clients a worker", ("server", "chunks/s", "cores that the clients take"), rows)
    pairs = zip(busy["two workers"], busy["one worker"], strict=True)
    ratios = [two.rate / one.rate for two, one in pairs]
    report.target(6, "throughput of two workers / one", median(ratios), 1.8, at_least=True)
    report.target(6, "(for comparison) two busy processes / one", median(gains), 1.8, at_least=True)


def _record(url: str, model: Model, output: Sequence[int]) -> list[bytes]:
    """The bodies of one stream. The server keeps nothing, so every client may send the same ones."""
    bodies, state = [], None
    with Connection(url) as connection:
        for at, token in enumerate(output):
            first = model.prompt if at == 0 else None
            bodies.append(chunk_body([token], state, prompt=first, final=at == len(output) - 1))
            state = json.loads(connection.post(DERENDER, bodies[-1]))["stream_state"]
    return bodies


def _responsive(report: Report, url: str, model: Model, output: Sequence[int], long_tokens: int) -> None:
    ids = model.output(long_tokens)
    body = chat_body(model, ids, logprobs=logprobs_of(model, ids))
    works: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
        f"{CLIENTS} clients stream": (_stream_all, (url, _record(url, model, output), CLIENTS)),
        f"one-shot of {long_tokens} tokens with logprobs": (_post_some, (url, body, 3)),
    }
    rows = []
    for name, (work, given) in works.items():
        times: list[float] = []
        stop = threading.Event()
        prober = threading.Thread(target=_probe, args=(url, stop, times))
        prober.start()
        _in_process(work, *given)
        stop.set()
        prober.join()
        sample = Sample(times)
        rows.append([name, len(times), milliseconds(sample.median), milliseconds(sample.p99), milliseconds(max(times))])
        report.target(5, f"/health p99: {name}", sample.p99 * 1e3, HEALTH_MS, unit="ms")
    report.table("/health meanwhile", ("while", "asked", "median ms", "p99 ms", "longest ms"), rows)


def _probe(url: str, stop: threading.Event, times: list[float]) -> None:
    with Connection(url) as connection:
        while not stop.is_set():
            begun = time.perf_counter()
            connection.get("/health")
            times.append(time.perf_counter() - begun)
            time.sleep(0.005)


def _in_process(work: Callable[..., T], *given: Any) -> T:
    """What ``work`` gives in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *given).result()


def _in_processes(count: int, seconds: float) -> float:
    """How much of what needs nothing but a processor so many processes do in a second."""
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as processes:
        list(processes.map(_spin, [0.0] * count))  # both are there
        return sum(processes.map(_spin, [seconds] * count))


def _spin(seconds: float) -> float:
    text, end, count = json.dumps(CHAT_REQUEST), time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        json.dumps(json.loads(text))
        count += 1
    return count / seconds if seconds else 0.0


class Busy(NamedTuple):
    """Chunks a second, and the share of a core that their clients took."""

    rate: float
    clients: float


def _keep_busy(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> Busy:
    """Send the bodies again and again on each connection, and count the answers."""
    connections = [Connection(url) for _ in range(clients)]
    requests = [connections[0].request(DERENDER, body) for body in bodies]
    batches = [b"".join(requests[at : at + UNDER_WAY]) for at in range(0, len(requests) - UNDER_WAY + 1, UNDER_WAY)]
    following = {connection: cycle(batches) for connection in connections}
    under_way = dict.fromkeys(connections, 0)
    by_number = {connection.fileno(): connection for connection in connections}
    answers, begun, used = 0, time.perf_counter(), time.process_time()
    with selectors.DefaultSelector() as selector:
        for number in by_number:
            selector.register(number, selectors.EVENT_READ)
        ready = connections
        while (took := time.perf_counter() - begun) < seconds:
            for connection in ready:
                if not under_way[connection]:
                    connection.send(next(following[connection]))
                    under_way[connection] = UNDER_WAY
            time.sleep(PAUSE)
            ready = [by_number[key.fd] for key, _ in selector.select()]
            for connection in ready:
                came = connection.receive_some()
                under_way[connection] -= came
                answers += came
    used = time.process_time() - used
    for connection in connections:
        while under_way[connection]:
            under_way[connection] -= connection.receive_some()
        connection.close()
    return Busy(answers / took, used / took)


def _stream_all(url: str, bodies: Sequence[bytes], clients: int) -> None:
    """Send the bodies once for each client, all at the same time."""
    connections = [Connection(url) for _ in range(clients)]
    for request in [connections[0].request(DERENDER, body) for body in bodies]:
        for connection in connections:
            connection.send(request)
        for connection in connections:
            connection.receive()
    for connection in connections:
        connection.close()


def _post_some(url: str, body: bytes, times: int) -> None:
    with Connection(url) as connection:
        for _ in range(times):
            connection.post(DERENDER, body)


def main() -> None:
    """The command."""
    given = arguments(__doc__, url=True).parse_args()
    run(find_model(), quick=given.quick, url=given.url).close(given.json)


if __name__ == "__main__":
    main()
