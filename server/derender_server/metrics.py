"""What ``/metrics`` tells, counted by ``prometheus-client``.

With ``--workers 2`` or more the library's multiprocess mode is on: every process counts in files of a directory of its
own choosing (``PROMETHEUS_MULTIPROC_DIR``), and whichever process is asked adds them up.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from derender_core.registry import Parser

__all__ = ["OTHER", "Metrics", "RouteMetrics", "forget_dead_workers"]

OTHER = "other"
"""The route of requests for paths that are not served, of which there are any number."""

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""A chunk takes a millisecond, a long answer with log probabilities a second."""

LIVE_FILE = re.compile(r"gauge_live\w+_(\d+)\.db")


class RouteMetrics:
    """The counters of one route, looked up once.

    Args:
        metrics: what they are part of.
        route: the path.
    """

    def __init__(self, metrics: Metrics, route: str) -> None:
        self._requests, self._route = metrics.requests, route
        self._seconds = metrics.seconds.labels(route)
        self._by_status: dict[int, Counter] = {}

    def done(self, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._requests.labels(self._route, str(status))
        counter.inc()
        self._seconds.observe(seconds)


class Metrics:
    """All counters of a process.

    Args:
        parsers: the configured parsers.
        shared: the directory of multiprocess mode, or None.

    Attributes:
        by_route: the counters of each path that is served, and of ``OTHER``.
    """

    def __init__(self, parsers: Sequence[Parser] = (), shared: str | None = None) -> None:
        self._shared = shared
        own = self._registry = CollectorRegistry()
        if shared is None:  # these know of one process only
            ProcessCollector(registry=own)
            PlatformCollector(registry=own)
            GCCollector(registry=own)
        self.requests = Counter("derender_requests", "Requests answered.", ["route", "status"], registry=own)
        self.errors = Counter("derender_errors", "Requests answered with an error.", ["route", "type"], registry=own)
        self.seconds = Histogram(
            "derender_request_duration_seconds", "From a request's head to the end of its answer.", ["route"],
            buckets=SECONDS, registry=own,
        )  # fmt: skip
        self.in_progress = Gauge(
            "derender_requests_in_progress", "Requests being worked on.", registry=own, multiprocess_mode="livesum"
        )
        self.chunks = Counter("derender_stream_chunks", "Chunks of streams derendered.", ["api"], registry=own)
        self.rendered = Counter("derender_rendered_tokens", "Token ids made of requests.", ["api"], registry=own)
        self.prompt = Counter(
            "derender_prompt_tokens", "Tokens of prompts of derendered answers.", ["api"], registry=own
        )
        self.output = Counter("derender_output_tokens", "Tokens of engines' outputs derendered.", ["api"], registry=own)
        self.tool_calls = Counter("derender_tool_calls", "Tool calls in answers.", ["parser"], registry=own)
        self.reasoning = Counter("derender_reasoning_tokens", "Output tokens of reasoning.", ["parser"], registry=own)
        self._parser_errors = Counter(
            "derender_parser_errors", "Failures of parsers, by hook, and timeouts.", ["slot", "parser", "kind"],
            registry=own,
        )  # fmt: skip
        self._parsers = parsers
        self._seen = {parser: dict(parser.failures) for parser in parsers}
        self._lock = threading.Lock()
        self.by_route = {OTHER: RouteMetrics(self, OTHER)}

    def add_routes(self, routes: Iterable[str]) -> None:
        """Count requests for these paths apart."""
        self.by_route.update((route, RouteMetrics(self, route)) for route in routes)

    def count_parser_errors(self) -> None:
        """Take over what the parsers counted since the last time."""
        with self._lock:
            for parser in self._parsers:
                now = dict(parser.failures)
                for kind, count in now.items():
                    more = count - self._seen[parser].get(kind, 0)
                    if more > 0:
                        self._parser_errors.labels(parser.slot, parser.name, kind).inc(more)
                self._seen[parser] = now

    def text(self, accept: str) -> tuple[bytes, str]:
        """The metrics of all processes, and their content type.

        Args:
            accept: the request's header of that name; it selects Prometheus' text format or OpenMetrics.
        """
        self.count_parser_errors()
        registry = self._registry
        if self._shared is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._shared)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type


def forget_dead_workers(shared: str) -> None:
    """Remove what processes that are gone were working on, so that it does not count for ever."""
    for file in Path(shared).iterdir():
        found = LIVE_FILE.fullmatch(file.name)
        if found and not _is_alive(int(found[1])):
            mark_process_dead(int(found[1]), shared)  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
