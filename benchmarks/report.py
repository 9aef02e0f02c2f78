"""What a benchmark says: tables for people, JSON for machines, and targets as ratios."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "TARGET_HEADS",
    "Report",
    "Sample",
    "Target",
    "arguments",
    "interleave",
    "microseconds",
    "milliseconds",
    "print_table",
    "ratio",
]


@dataclass(frozen=True)
class Sample:
    """Times of one thing, in seconds.

    Args:
        times: as measured, in order.
    """

    times: list[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.times)

    @property
    def p99(self) -> float:
        """All but one of a hundred are at most this."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]

    @property
    def best(self) -> float:
        """The least: what it takes when nothing else runs on the machine."""
        return min(self.times)


@dataclass(frozen=True)
class Target:
    """A number that was to be reached.

    Args:
        item: of which item of the list in docs/performance.md.
        what: what is compared.
        value: what was measured.
        limit: what it should be.
        at_least: whether more is better.
        unit: of both.
    """

    item: int
    what: str
    value: float
    limit: float
    at_least: bool = False
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def row(self) -> list[str]:
        """For a table."""
        bound = "at least" if self.at_least else "at most"
        return [
            str(self.item),
            self.what,
            f"{bound} {self.limit:g} {self.unit}",
            f"{self.value:.2f} {self.unit}",
            "yes" if self.met else "NO",
        ]


class Report:
    """The results of one benchmark.

    Args:
        name: the benchmark's.
        model: the model's.
    """

    def __init__(self, name: str, model: str) -> None:
        self.name, self.model = name, model
        self.targets: list[Target] = []
        self._tables: list[dict[str, Any]] = []
        self.data: dict[str, Any] = {}

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table, and keep it for the JSON."""
        self._tables.append({"title": title, "heads": list(heads), "rows": [list(row) for row in rows]})
        print_table(title, heads, rows)

    def target(
        self, item: int, what: str, value: float, limit: float, *, at_least: bool = False, unit: str = "x"
    ) -> None:
        """Note a target."""
        self.targets.append(Target(item, what, value, limit, at_least, unit))

    def close(self, path: Path | None) -> None:
        """Print the targets, and write the JSON if asked to."""
        if self.targets:
            print_table("Targets", TARGET_HEADS, [target.row() for target in self.targets])
        if path is not None:
            path.write_text(json.dumps(self.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"wrote {path}")

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-plain."""
        return {
            "benchmark": self.name,
            "model": self.model,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "tables": self._tables,
            "targets": [{**asdict(target), "met": target.met} for target in self.targets],
            "data": self.data,
        }


TARGET_HEADS = ("item", "what", "target", "measured", "met")


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under heads, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(heads), *cells]) for at in range(len(heads))]
    print(f"\n{title}")
    for row in [list(heads), ["-" * width for width in widths], *cells]:
        line = (
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        print("  ".join(line).rstrip())


def interleave(things: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1) -> dict[str, Sample]:
    """Time several things in turn, so that all of them see the same machine. Each is called once before.

    Args:
        things: what to call, by name.
        rounds: how often each is timed.
        calls: how many calls are timed at once; the times are of one.
    """
    clock = time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in things}
    for call in things.values():
        call()
    for _ in range(rounds):
        for name, call in things.items():
            begun = clock()
            for _ in range(calls):
                call()
            times[name].append((clock() - begun) / calls)
    return {name: Sample(found) for name, found in times.items()}


def ratio(samples: Mapping[str, Sample], above: str, below: str) -> float:
    """The median over the rounds of ``interleave`` of one time over the other: what slows both cancels out."""
    pairs = zip(samples[above].times, samples[below].times, strict=True)
    return statistics.median(upper / lower for upper, lower in pairs)


def milliseconds(seconds: float) -> str:
    """For a table."""
    return f"{seconds * 1e3:.3f}"


def microseconds(seconds: float) -> str:
    """For a table."""
    return f"{seconds * 1e6:.2f}"


def arguments(description: str | None, *, url: bool = False) -> argparse.ArgumentParser:
    """The command line that all benchmarks share."""
    parser = argparse.ArgumentParser(description=(description or "").strip().splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it works, measures nothing")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results there")
    if url:
        parser.add_argument("--url", help="another server of this protocol, to be measured beside ours")
    return parser
