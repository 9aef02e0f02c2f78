"""Whole outputs in one request over HTTP, with and without log probabilities."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.client import Connection, UsualClient
from benchmarks.report import Report, Sample, arguments, interleave, microseconds, milliseconds, ratio
from benchmarks.server import started
from benchmarks.workload import Model, chat_body, find_model

__all__ = ["logprobs_of", "run"]

DERENDER, NOOP, RAW = "/v1/chat/completions/derender", "/noop", "/noop/raw"
USUAL = "httpx "
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
    with started(model) as server, Connection(server.url) as connection, UsualClient(server.url) as usual:
        got = {}
        for length, body in bodies.items():
            things: dict[str, Callable[[], bytes]] = {
                **{route: partial(connection.post, route, body) for route in (DERENDER, NOOP, RAW)},
                **{USUAL + route: partial(usual.post_json, route, body) for route in (DERENDER, NOOP)},
            }
            interleave(things, 3)
            got[length] = interleave(things, rounds if length <= SHORT else max(rounds // 4, 5))
        _plain(report, got)
        _logprobs(report, model, connection, 100 if quick else 2000, max(rounds // 4, 5))
    if url:
        with Connection(url) as connection:
            rows = []
            for length, body in bodies.items():
                there = interleave({"other": partial(connection.post, DERENDER, body)}, 5)["other"].median
                here = got[length][DERENDER].median
                rows.append([length, milliseconds(here), milliseconds(there), f"{there / here:.1f}"])
        report.table(url, ("tokens", "ours ms", "other ms", "other/ours"), rows)
    return report


def _plain(report: Report, got: Mapping[int, Mapping[str, Sample]]) -> None:
    rows = []
    for length, samples in got.items():
        times = (samples[name].median for name in (DERENDER, NOOP, RAW, USUAL + DERENDER, USUAL + NOOP))
        ratios = (ratio(samples, DERENDER, NOOP), ratio(samples, USUAL + DERENDER, USUAL + NOOP))
        rows.append([length, *map(milliseconds, times), *(f"{value:.2f}" for value in ratios)])
    heads = ("tokens", "derender ms", "no-op ms", "raw no-op ms", "derender httpx ms", "no-op httpx ms")
    title = "One-shot chat derender, hermes + qwen3"
    report.table(title, (*heads, "derender/no-op", "the same, httpx"), rows)
    short, longest = SHORT, max(got)
    usual = ratio(got[short], USUAL + DERENDER, USUAL + NOOP)
    report.target(3, f"{short} tokens / no-op POST, httpx", usual, 2)
    report.target(3, f"{short} tokens / no-op POST, bare socket", ratio(got[short], DERENDER, NOOP), 2)
    # What both of them cost besides the tokens is what a request without tokens would: the raw no-op of a small body.
    overhead = got[min(got)][RAW].median
    growth = (got[longest][DERENDER].best - overhead) / (got[short][DERENDER].best - overhead)
    report.target(3, f"{longest} tokens / {short} tokens, overhead excluded", growth, 45 * longest / LONG)


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
