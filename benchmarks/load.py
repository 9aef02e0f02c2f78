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
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from typing import Any, TypeVar

from benchmarks.client import Connection
from benchmarks.oneshot import logprobs_of
from benchmarks.report import Report, Sample, arguments, milliseconds
from benchmarks.server import start_command
from benchmarks.workload import Model, chat_body, chunk_body, find_model

__all__ = ["run"]

DERENDER = "/v1/chat/completions/derender"
CLIENTS = 20
UNDER_WAY = 8
"""Requests of a connection that are sent at once."""
HEALTH_MS = 50

T = TypeVar("T")


def run(model: Model, *, quick: bool = False, url: str | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("load", model.name)
    tokens, long_tokens = (64, 1500) if quick else (2048, 30_000)
    output = model.output(tokens)
    seconds = 0.3 if quick else 10.0
    rates = {}
    for workers in (1, 2):
        with start_command(model, ["--workers", str(workers)]) as (server, _):
            rates[workers] = _throughput(server.url, model, output, workers * CLIENTS, seconds)
            if workers == 1:
                _responsive(report, server.url, model, output, long_tokens)
    rows = [[workers, f"{rate:.0f}"] for workers, rate in rates.items()]
    report.table(f"{CLIENTS} clients a worker, {tokens} tokens each", ("workers", "chunks/s"), rows)
    report.target(6, "throughput of two workers / one", rates[2] / rates[1], 1.8, at_least=True)
    if url:
        rate = _throughput(url, model, output[: 64 if quick else 256], CLIENTS, seconds)
        report.table(url, ("server", "chunks/s"), [["ours, one worker", f"{rates[1]:.0f}"], ["other", f"{rate:.0f}"]])
    return report


def _throughput(url: str, model: Model, output: Sequence[int], clients: int, seconds: float) -> float:
    """Chunks a second over all clients."""
    return _in_process(_keep_busy, url, _record(url, model, output), clients, seconds)


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


def _keep_busy(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> float:
    """Send the bodies again and again on each connection, and count the answers of a second."""
    connections = [Connection(url) for _ in range(clients)]
    requests = [connections[0].request(DERENDER, body) for body in bodies]
    batches = [b"".join(requests[at : at + UNDER_WAY]) for at in range(0, len(requests) - UNDER_WAY + 1, UNDER_WAY)]
    following = {connection: cycle(batches) for connection in connections}
    under_way = dict.fromkeys(connections, 0)
    by_number = {connection.fileno(): connection for connection in connections}
    answers, begun = 0, time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for number in by_number:
            selector.register(number, selectors.EVENT_READ)
        ready = connections
        while (took := time.perf_counter() - begun) < seconds:
            for connection in ready:
                if not under_way[connection]:
                    connection.send(next(following[connection]))
                    under_way[connection] = UNDER_WAY
            ready = [by_number[key.fd] for key, _ in selector.select()]
            for connection in ready:
                came = connection.receive_some()
                under_way[connection] -= came
                answers += came
    for connection in connections:
        while under_way[connection]:
            under_way[connection] -= connection.receive_some()
        connection.close()
    return answers / took


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
