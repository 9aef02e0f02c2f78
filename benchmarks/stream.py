"""A derendered chunk over HTTP, one token each, along a whole output.

Each chunk goes to our server; the same body goes to the no-op of the same process right after it. So the two see the
same machine, and their ratio says what derendering adds to what Litestar and uvicorn cost anyway. At some places
usual clients ask too, whose own time stands on both sides of the ratio, as it does for whoever waits for an answer.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.chart import Points, line_chart
from benchmarks.client import CLIENTS, Connection
from benchmarks.report import Report, Sample, arguments, interleave, milliseconds, ratio
from benchmarks.server import started
from benchmarks.workload import Model, chunk_body, find_model

__all__ = ["run"]

DERENDER, NOOP, RAW = "/v1/chat/completions/derender", "/noop", "/noop/raw"
TENTH = 0.1
OTHER_SECONDS = 120.0
"""A server that replays needs longer with every chunk: it is asked for no longer than this."""


@dataclass
class Streamed:
    """What a streamed output cost, chunk by chunk.

    Args:
        times: seconds, by route.
        sent: bytes of the request bodies.
        received: bytes of the answers.
        states: bytes of the states.
        before: the states before the tokens that were asked for.
    """

    times: dict[str, list[float]] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    before: dict[int, Any] = field(default_factory=dict)

    def around(self, route: str, token: int, width: float = 0.2) -> Sample:
        """The chunks near a token."""
        reach = max(20, int(token * width))
        return Sample(self.times[route][max(0, token - reach) : token + reach])


def stream(
    connection: Connection,
    output: Sequence[int],
    prompt: Sequence[int],
    *,
    routes: Sequence[str] = (DERENDER,),
    every_prompt: bool = False,
    keep: Sequence[int] = (),
    seconds: float = float("inf"),
) -> Streamed:
    """Stream an output, one token a chunk.

    Args:
        connection: to the server.
        output: the ids.
        prompt: the prompt's ids, sent with the first chunk.
        routes: what every body is sent to; the first one derenders.
        every_prompt: send the prompt with every chunk, as the protocol has it.
        keep: the tokens before which the state is kept.
        seconds: stop after so long.
    """
    found = Streamed({route: [] for route in routes})
    state, end, clock = None, time.monotonic() + seconds, time.perf_counter
    for at, token in enumerate(output):
        if at in keep:
            found.before[at] = state
        final = at == len(output) - 1
        body = chunk_body([token], state, prompt=prompt if every_prompt or at == 0 else None, final=final)
        answer = b""
        for route in routes:
            begun = clock()
            got = connection.post(route, body)
            found.times[route].append(clock() - begun)
            answer = answer or got
        state = json.loads(answer)["stream_state"]
        found.sent.append(len(body))
        found.received.append(len(answer))
        found.states.append(len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()))
        if time.monotonic() > end:
            break
    return found


def curve(streamed: Streamed, route: str) -> Points:
    """Medians in milliseconds, over stretches that grow with the position."""
    times, points, at = streamed.times[route], [], 1
    while at < len(times):
        end = min(len(times), max(at + 10, int(at * 1.25)))
        points.append((float(at), statistics.median(times[at:end]) * 1e3))
        at = end
    return points


def run(model: Model, *, quick: bool = False, url: str | None = None, svg: Path | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("stream", model.name)
    positions = (100, 400) if quick else (100, 1000, 10_000)
    output = model.output(int(positions[-1] * 1.2))
    with started(model) as server:
        with Connection(server.url) as connection:
            routes = (DERENDER, NOOP, RAW)
            stream(connection, output[:200], model.prompt, routes=routes)  # warm up
            ours = stream(connection, output, model.prompt, routes=routes, keep=positions)
        _along(report, server.url, output, ours.before, 50 if quick else 500)
        _tail(report, ours)
        _wire(report, ours, positions)
        with Connection(server.url) as connection:
            _long_prompt(report, model, connection, 20 if quick else 100)
    lines = {"derendered chunk": curve(ours, DERENDER), "no-op, same body": curve(ours, NOOP)}
    if url:
        lines["other server"] = _other(report, model, url, output[: 200 if quick else len(output)], ours)
    if svg is not None:
        title = "Cost of one chunk, by its place in the output (median, over HTTP)"
        svg.write_text(line_chart(title, "output token", "milliseconds", lines), encoding="utf-8")
        print(f"wrote {svg}")
    return report


def _along(report: Report, url: str, output: Sequence[int], before: Mapping[int, Any], count: int) -> None:
    """So many chunks from each of some places of an output on, in turn: the machine is the same for all of them."""
    rows = []
    for name, client in CLIENTS.items():
        states = dict(before)
        samples = {place: Sample([]) for place in product(states, (DERENDER, NOOP))}
        with client(url) as connection:
            for step in range(count):
                for first, state in states.items():
                    body = chunk_body([output[first + step]], state)
                    got = {}
                    for route in (DERENDER, NOOP):
                        begun = time.perf_counter()
                        got[route] = connection.post(route, body)
                        samples[first, route].times.append(time.perf_counter() - begun)
                    states[first] = json.loads(got[DERENDER])["stream_state"]
        for first in states:
            of_place = {route: samples[first, route] for route in (DERENDER, NOOP)}
            medians = [milliseconds(sample.median) for sample in of_place.values()]
            rows.append([first, name, *medians, f"{ratio(of_place, DERENDER, NOOP):.2f}"])
        whole = {
            route: Sample([time for first in states for time in samples[first, route].times]) for route in of_place
        }
        report.target(1, f"chunk / no-op POST, median, {name}", ratio(whole, DERENDER, NOOP), 1.5)
        if client is Connection:
            along = [samples[first, DERENDER].median for first in states]
            report.target(1, "medians along the output, largest / smallest", max(along) / min(along), 1 + TENTH)
    heads = ("output token", "client", "chunk ms", "no-op ms", "chunk/no-op")
    report.table(f"{count} chunks of one token from there on, hermes + qwen3", heads, rows)


def _tail(report: Report, ours: Streamed) -> None:
    chunk, noop = Sample(ours.times[DERENDER]), Sample(ours.times[NOOP])
    report.target(1, "chunk: p99 / median", chunk.p99 / chunk.median, 3)
    report.target(1, "(for comparison) no-op: p99 / median", noop.p99 / noop.median, 3)
    report.data["curve_ms"] = {route: curve(ours, route) for route in (DERENDER, NOOP, RAW)}


def _wire(report: Report, ours: Streamed, positions: Sequence[int]) -> None:
    rows = [
        [
            token,
            ours.states[token],
            f"{sum(ours.sent[:token]) / token:.0f}",
            f"{sum(ours.received[:token]) / token:.0f}",
        ]
        for token in positions
    ]
    report.table("On the wire", ("output token", "state bytes", "sent bytes/chunk", "received bytes/chunk"), rows)
    report.target(2, "largest stream_state", max(ours.states) / 1024, 2, unit="KB")
    first, last = positions[0], positions[-1]
    growth = (sum(ours.sent[:last]) / last) / (sum(ours.sent[:first]) / first)
    report.target(2, f"bytes/chunk up to token {last} / up to token {first}", growth, 1 + TENTH)
    report.data["bytes"] = {"sent": sum(ours.sent), "received": sum(ours.received), "chunks": len(ours.sent)}


def _long_prompt(report: Report, model: Model, connection: Connection, rounds: int) -> None:
    prompt = model.prose_ids(100_000 - len(model.prompt)) + model.prompt
    ids = model.output(16)
    state = json.loads(connection.post(DERENDER, chunk_body(ids[:8], None, prompt=prompt)))["stream_state"]
    body, short = chunk_body(ids[8:9], state, prompt=prompt), chunk_body(ids[8:9], state)
    things = {
        "chunk": lambda: connection.post(DERENDER, body),
        "raw no-op": lambda: connection.post(RAW, body),
        "chunk without prompt": lambda: connection.post(DERENDER, short),
        "raw no-op without prompt": lambda: connection.post(RAW, short),
        "msgspec": lambda: msgspec.json.decode(body),
    }
    got = interleave(things, rounds)
    rows = [[name, milliseconds(sample.median)] for name, sample in got.items()]
    report.table(f"100,000 prompt ids with every chunk ({len(body)} bytes)", ("what", "ms"), rows)
    # What the prompt adds to a chunk, less what carrying the same bytes adds to a no-op that does not look at them.
    pairs = zip(*(got[name].times for name in things), strict=True)
    added = statistics.median((chunk - raw - few + raw_few) / decode for chunk, raw, few, raw_few, decode in pairs)
    report.target(2, "parsing 100,000 prompt ids / msgspec.json.decode", added, 2)


def _other(report: Report, model: Model, url: str, output: Sequence[int], ours: Streamed) -> Points:
    with Connection(url) as connection:
        other = stream(connection, output, model.prompt, every_prompt=True, seconds=OTHER_SECONDS)
    rows = []
    for token in (80, 400, 800, 1000, 5000, 10_000):
        if token < len(other.sent):
            there, here = other.around(DERENDER, token).median, ours.around(DERENDER, token).median
            rows.append([token, milliseconds(here), milliseconds(there), f"{there / here:.1f}", other.states[token]])
    heads = ("output token", "ours ms", "other ms", "other/ours", "other's state bytes")
    report.table(f"{url}, {len(other.sent)} chunks", heads, rows)
    return curve(other, DERENDER)


def main() -> None:
    """The command."""
    parser = arguments(__doc__, url=True)
    parser.add_argument("--svg", type=Path, metavar="PATH", help="draw the cost along the output there")
    given = parser.parse_args()
    run(find_model(), quick=given.quick, url=given.url, svg=given.svg).close(given.json)


if __name__ == "__main__":
    main()
