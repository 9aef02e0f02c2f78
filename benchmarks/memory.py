"""Seconds from the command to the first answer, and resident memory, of ``derender serve`` as users start it."""

from __future__ import annotations

import statistics

from benchmarks.client import Connection
from benchmarks.report import Report, arguments
from benchmarks.server import resident_bytes, start_command
from benchmarks.workload import Model, chat_body, chunk_body, find_model

__all__ = ["run"]

MB = 1 << 20
DERENDER = "/v1/chat/completions/derender"


def run(model: Model, *, quick: bool = False) -> Report:
    """Measure, print and return it."""
    report = Report("memory", model.name)
    rows, starts, sizes = [], [], []
    for number in range(1 if quick else 5):
        with start_command(model) as (server, seconds), Connection(server.url) as connection:
            fresh = resident_bytes(server.process.pid)
            for _ in range(20 if quick else 200):
                connection.post(DERENDER, chunk_body(model.output(4), None, prompt=model.prompt))
                connection.post(DERENDER, chat_body(model, model.output(800)))
            connection.post(DERENDER, chat_body(model, model.output(2000 if quick else 30_000)))
            used = resident_bytes(server.process.pid)
        starts.append(seconds)
        sizes.append((used or 0) / MB)
        rows.append([number + 1, f"{seconds:.2f}", _show(fresh), _show(used)])
    heads = ("start", "seconds to the first answer", "MB at start", "MB after work")
    report.table("derender serve, hermes + qwen3", heads, rows)
    report.target(6, "start to first answer", statistics.median(starts), 2, unit="s")
    if all(sizes):
        report.target(6, "resident memory", max(sizes), 250, unit="MB")
    return report


def _show(size: int | None) -> str:
    return "unknown" if size is None else f"{size / MB:.0f}"


def main() -> None:
    """The command."""
    given = arguments(__doc__).parse_args()
    run(find_model(), quick=given.quick).close(given.json)


if __name__ == "__main__":
    main()
