"""Many streams at once: throughput by workers, and how long ``/health`` waits while others work.

The streams run in a process of their own, so that what is measured is not the clients' interpreter.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.client import Connection
from benchmarks.oneshot import logprobs_of
from benchmarks.report import Report, Sample, arguments, milliseconds
from benchmarks.server import start_command
from benchmarks.workload import Model, chat_body, chunk_body, find_model

__all__ = ["run"]

DERENDER = "/v1/chat/completions/derender"
CLIENTS = 20
HEALTH_MS = 50


def run(model: Model, *, quick: bool = False, url: str | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("load", model.name)
    tokens, long_tokens = (64, 1500) if quick else (2048, 30_000)
    output = model.output(tokens)
    rates = {}
    for workers in (1, 2):
        with start_command(model, ["--workers", str(workers)]) as (server, _):
            rates[workers] = _throughput(server.url, model, output, 2 * CLIENTS if workers > 1 else CLIENTS)
            if workers == 1:
                _responsive(report, server.url, model, output, long_tokens)
    rows = [[workers, f"{rate:.0f}"] for workers, rate in rates.items()]
    report.table(f"{CLIENTS} clients a worker, {tokens} tokens each", ("workers", "chunks/s"), rows)
    report.target(6, "throughput of two workers / one", rates[2] / rates[1], 1.8, at_least=True)
    if url:
        rate = _throughput(url, model, output[: 64 if quick else 256], CLIENTS)
        report.table(url, ("server", "chunks/s"), [["ours, one worker", f"{rates[1]:.0f}"], ["other", f"{rate:.0f}"]])
    return report


def _throughput(url: str, model: Model, output: Sequence[int], clients: int) -> float:
    """Chunks a second over all clients."""
    bodies = _record(url, model, output)
    begun = time.perf_counter()
    _in_process(_stream_all, url, bodies, clients)
    return clients * len(output) / (time.perf_counter() - begun)


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


def _in_process(work: Callable[..., None], *given: Any) -> None:
    """Run ``work`` in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=given)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the clients ended with code {process.exitcode}; see above")


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
