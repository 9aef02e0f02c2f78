"""Whole outputs in one request over HTTP, with and without log probabilities."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.client import Connection
from benchmarks.report import Report, Sample, arguments, interleave, microseconds, milliseconds
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
    rounds = 10 if quick else 60
    with started(model) as server, Connection(server.url) as connection:
        got = {}
        for length, body in bodies.items():
            things = {route: _post(connection, route, body) for route in (DERENDER, NOOP, RAW)}
            interleave(things, 3)
            got[length] = interleave(things, rounds if length <= SHORT else max(rounds // 4, 5))
        _plain(report, got)
        _logprobs(report, model, connection, 100 if quick else 2000, max(rounds // 4, 5))
    if url:
        with Connection(url) as connection:
            rows = []
            for length, body in bodies.items():
                there = interleave({"other": _post(connection, DERENDER, body)}, 5)["other"].median
                here = got[length][DERENDER].median
                rows.append([length, milliseconds(here), milliseconds(there), f"{there / here:.1f}"])
        report.table(url, ("tokens", "ours ms", "other ms", "other/ours"), rows)
    return report


def _post(connection: Connection, route: str, body: bytes) -> Any:
    return lambda: connection.post(route, body)


def _plain(report: Report, got: Mapping[int, Mapping[str, Sample]]) -> None:
    rows = []
    for length, samples in got.items():
        whole, noop, raw = (samples[route].median for route in (DERENDER, NOOP, RAW))
        rows.append([length, *map(milliseconds, (whole, noop, raw)), f"{whole / noop:.2f}", f"{whole / raw:.2f}"])
    heads = ("tokens", "derender ms", "no-op ms", "raw no-op ms", "derender/no-op", "derender/raw")
    report.table("One-shot chat derender, hermes + qwen3", heads, rows)
    short, longest = SHORT, max(got)
    report.target(3, f"{short} tokens / no-op POST", _over(got[short], DERENDER, NOOP), 2)
    # What both of them cost besides the tokens is what a request without tokens would: the raw no-op of a small body.
    overhead = got[min(got)][RAW].median
    growth = (got[longest][DERENDER].best - overhead) / (got[short][DERENDER].best - overhead)
    report.target(3, f"{longest} tokens / {short} tokens, overhead excluded", growth, 45 * longest / LONG)


def _over(samples: Mapping[str, Sample], above: str, below: str) -> float:
    """Median ratio of times taken in turn."""
    pairs = zip(samples[above].times, samples[below].times, strict=True)
    return statistics.median(upper / lower for upper, lower in pairs)


def _logprobs(report: Report, model: Model, connection: Connection, length: int, rounds: int) -> None:
    ids = model.output(length)
    plain, full = chat_body(model, ids), chat_body(model, ids, logprobs=logprobs_of(model, ids))
    things = {
        "plain": _post(connection, DERENDER, plain),
        "logprobs": _post(connection, DERENDER, full),
        "raw no-op": _post(connection, RAW, full),
        "no-op": _post(connection, NOOP, full),
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
