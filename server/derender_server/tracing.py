"""OpenTelemetry traces, when the extra ``otel`` is installed and there is somebody to send them to.

That is either a tracer provider that was set up from outside (``opentelemetry-instrument derender serve ...``), or one
made here, when OpenTelemetry's own variables name a collector (``OTEL_EXPORTER_OTLP_ENDPOINT``). Otherwise nothing is
traced, and a request pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, cast

from litestar.types import ASGIApp

from derender_server.settings import names_collector

__all__ = ["trace_requests", "with_traces"]

UNTRACED = ("/health", "/ready", "/ping", "/metrics")


def with_traces(app: ASGIApp, version: str) -> tuple[ASGIApp, Callable[[], None]]:
    """The application with a span for each request, if traces go anywhere; and what ends them.

    Args:
        app: the application.
        version: of the server.
    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.instrumentation.asgi") is None:
        return app, _nothing
    from opentelemetry import trace

    given = trace.get_tracer_provider()
    if not isinstance(given, trace.ProxyTracerProvider):
        return trace_requests(app, given), _nothing
    if not names_collector():
        return app, _nothing
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = Resource({SERVICE_NAME: "derender", SERVICE_VERSION: version})
    provider = TracerProvider(resource=Resource.create().merge(named).merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return trace_requests(app, provider), provider.shutdown


def trace_requests(app: ASGIApp, provider: Any) -> ASGIApp:
    """The application with a span for each request but probes.

    Args:
        app: the application.
        provider: the tracer provider.
    """
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
    from opentelemetry.util.http import ExcludeList

    excluded = ExcludeList([rf"{path}$" for path in UNTRACED])
    traced = OpenTelemetryMiddleware(
        app,
        excluded_urls=excluded,
        tracer_provider=provider,
        exclude_spans=["receive", "send"],  # the body comes and goes in one piece: they would only tell the same again
    )
    return cast(ASGIApp, traced)


def _nothing() -> None:
    """There are no traces to end."""
