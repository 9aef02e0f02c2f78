"""The application: wiring only."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any

from litestar.connection import ASGIConnection, WebSocket
from litestar.datastructures import State
from litestar.exceptions import HTTPException, NotAuthorizedException, WebSocketException
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from derender_core.registry import Parser
from derender_server.access_log import AccessLog
from derender_server.bodies import BodyLimits
from derender_server.chat_socket import ROUTE as SOCKET_ROUTE
from derender_server.chat_socket import derender_chat_socket
from derender_server.demo.engine import demo_engine_handlers
from derender_server.errors import answer_error
from derender_server.gate import Application, Gate
from derender_server.gateway.endpoints import GATEWAY_HANDLERS
from derender_server.gateway.engine_chunks import EngineSource
from derender_server.gateway.gateway import Gateway
from derender_server.openapi import document_handlers
from derender_server.plugin_guard import PluginGuard
from derender_server.routes import HANDLERS
from derender_server.services import Services
from derender_server.settings import Settings
from derender_server.tracing import with_traces
from derender_server.work import Work

__all__ = ["create_app"]

NO_KEY = "A valid API key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY"


def create_app(
    settings: Settings, access_log: AccessLog | None = None, engines: EngineSource | None = None
) -> Application:
    """The server, ready to run.

    Args:
        settings: what it was told.
        access_log: gets a line for each request.
        engines: what the gateway asks, in place of the engines that the settings name.

    Raises:
        TokenizerLoadError: the model cannot be loaded.
        ParserLoadError: a parser cannot be loaded.
        TemplateError: the chat template is not valid.
    """
    services = Services(settings)
    work = Work(settings.renderer_num_workers, _plugin_guard(settings, services.parsers))
    limits = BodyLimits(settings.body_limit, settings.body_timeout)
    handlers: list[BaseRouteHandler] = [*HANDLERS, derender_chat_socket]
    if settings.is_demo:
        handlers += demo_engine_handlers(services.model, limits=limits)
    if engines is None and settings.engines is not None:
        from derender_server.gateway.engines import Engines  # its HTTP client takes a tenth of the time to start

        engines = Engines(settings.engines)
    gateway = None if engines is None else Gateway(services, engines, work, settings.keep_alive_interval)
    if gateway is not None:
        handlers += GATEWAY_HANDLERS
    handlers += document_handlers(handlers, services.version)
    app = Application(
        route_handlers=handlers,
        state=State({"services": services, "work": work, "body_limits": limits, "gateway": gateway}),
        exception_handlers={HTTPException: answer_error, Exception: answer_error},
        guards=[_key_guard(settings.api_key)] if settings.api_key else [],
        on_startup=[] if engines is None else [engines.start],
        on_shutdown=[work.close] if engines is None else [work.close, engines.close],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=settings.body_limit,
    )
    serve, end_traces = with_traces(app.behind_gate, services.version)
    app.on_shutdown.append(end_traces)
    services.metrics.add_routes(path for handler in handlers for path in handler.paths)
    app.gate = Gate(serve, services.metrics, settings.root_path, access_log)
    app.gate.sockets = frozenset({SOCKET_ROUTE})
    if access_log is not None:
        app.on_shutdown.append(access_log.flush)
    return app


def _plugin_guard(settings: Settings, parsers: Sequence[Parser]) -> PluginGuard | None:
    if settings.plugin_timeout is None:
        return None
    return PluginGuard(parsers, settings.plugin_timeout, settings.renderer_num_workers)


def _key_guard(keys: tuple[str, ...]) -> Guard:
    accepted = [key.encode() for key in keys]

    def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        scheme, _, token = connection.headers.get("authorization", "").encode().partition(b" ")
        # OpenAI's clients send a bearer token, Anthropic's a header of their own.
        given = token if scheme.lower() == b"bearer" else connection.headers.get("x-api-key", "").encode()
        matches = sum(hmac.compare_digest(given, key) for key in accepted)  # all of them, so that time tells nothing
        if not matches and not handler.opt.get("open"):
            if isinstance(connection, WebSocket):
                raise WebSocketException(detail=NO_KEY, code=4401)
            raise NotAuthorizedException(NO_KEY, headers={"www-authenticate": "Bearer"})

    return guard
