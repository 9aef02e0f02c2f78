"""Whole outputs in one request over HTTP, with and without log probabilities."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.client import CLIENTS, Connection
from benchmarks.report import Report, Sample, arguments, interleave, microseconds, milliseconds, ratio
from benchmarks.server import started
from benchmarks.workload import Model, chat_body, find_model

__all__ = ["logprobs_of", "run"]

DERENDER, NOOP, RAW = "/v1/chat/completions/derender", "/noop", "/noop/raw"
SHORT, LONG = 800, 30_000
ALTERNATIVES = 20


def logprobs_of(model: Model, token_ids: Sequence[int], alternatives: int = ALTERNATIVES) -> dict[str, Any]:
    """Log probabilities as an engine reports them, with so many alternatives to each id."""
    rng = random.Random(1)
    others = model.prose_ids(5000)

    def entry(token_id: int) -> dict[str, Any]:
        return {"token_id": token_id, "logprob": -round(rng.random() * 9, 6), "rank": rng.randrange(1, 99)}

    return {
        "content": [
            {**entry(token_id), "top_logprobs": [entry(rng.choice(others)) for _ in range(alternatives)]}
            for token_id in token_ids
        ]
    }


def run(model: Model, *, quick: bool = False, url: str | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("oneshot", model.name)
    lengths = (80, SHORT, 3000) if quick else (80, SHORT, 8000, LONG)
    bodies = {length: chat_body(model, model.output(length)) for length in lengths}
    rounds = 10 if quick else 300
    with started(model) as server:
        got = {}
        for name, client in CLIENTS.items():
            with client(server.url) as connection:
                for length, body in bodies.items():
                    routes = (DERENDER, NOOP, RAW)
                    things = {route: partial(connection.post, route, body) for route in routes}
                    interleave(things, 3)
                    got[name, length] = interleave(things, rounds if length <= SHORT else max(rounds // 4, 5))
        _plain(report, got)
        with Connection(server.url) as connection:
            _logprobs(report, model, connection, 100 if quick else 2000, max(rounds // 4, 5))
    if url:
        with Connection(url) as connection:
            rows = []
            for length, body in bodies.items():
                there = interleave({"other": partial(connection.post, DERENDER, body)}, 5)["other"].median
                here = got["bare socket", length][DERENDER].median
                rows.append([length, milliseconds(here), milliseconds(there), f"{there / here:.1f}"])
        report.table(url, ("tokens", "ours ms", "other ms", "other/ours"), rows)
    return report


def _plain(report: Report, got: Mapping[tuple[str, int], Mapping[str, Sample]]) -> None:
    rows = []
    for (name, length), samples in got.items():
        medians = [milliseconds(sample.median) for sample in samples.values()]
        rows.append([length, name, *medians, f"{ratio(samples, DERENDER, NOOP):.2f}"])
        if length == SHORT:
            report.target(3, f"{SHORT} tokens / no-op POST, {name}", ratio(samples, DERENDER, NOOP), 2)
    heads = ("tokens", "client", "derender ms", "no-op ms", "raw no-op ms", "derender/no-op")
    report.table("One-shot chat derender, hermes + qwen3", heads, rows)
    bare = {length: samples for (name, length), samples in got.items() if name == "bare socket"}
    longest = max(bare)
    # What both of them cost besides the tokens is what a request without tokens would: the raw no-op of a small body.
    overhead = bare[min(bare)][RAW].median
    growth = (bare[longest][DERENDER].best - overhead) / (bare[SHORT][DERENDER].best - overhead)
    report.target(3, f"{longest} tokens / {SHORT} tokens, overhead excluded", growth, 45 * longest / LONG)


def _logprobs(report: Report, model: Model, connection: Connection, length: int, rounds: int) -> None:
    ids = model.output(length)
    plain, full = chat_body(model, ids), chat_body(model, ids, logprobs=logprobs_of(model, ids))
    things = {
        "plain": partial(connection.post, DERENDER, plain),
        "logprobs": partial(connection.post, DERENDER, full),
        "raw no-op": partial(connection.post, RAW, full),
        "no-op": partial(connection.post, NOOP, full),
    }
    interleave(things, 2)
    got = interleave(things, rounds)
    each = (got["logprobs"].median - got["plain"].median) / (length * (ALTERNATIVES + 1))
    rows = [[name, milliseconds(sample.median)] for name, sample in got.items()]
    report.table(f"{length} tokens with {ALTERNATIVES} alternatives each ({len(full)} bytes)", ("what", "ms"), rows)
    report.table("Log probabilities", ("what", "us"), [["an alternative", microseconds(each)]])
    report.target(5, "logprobs, per alternative", each * 1e6, 10, unit="us")


def main() -> None:
    """The command."""
    given = arguments(__doc__, url=True).parse_args()
    run(find_model(), quick=given.quick, url=given.url).close(given.json)


if __name__ == "__main__":
    main()
