"""Running the application under uvicorn: sockets, signals, processes."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from derender_server.access_log import AccessLog
from derender_server.app import create_app
from derender_server.collector import paused_collector
from derender_server.gate import Application
from derender_server.metrics import forget_dead_workers
from derender_server.settings import Settings, shared_metrics
from derender_server.shared_port import SharedPort

if sys.platform != "win32":  # httptools is not there
    from derender_server.http_protocol import http_protocol

__all__ = ["run", "set_up_logging", "worker_app"]

log = logging.getLogger("derender")

AT_ONCE = 0.05
"""Seconds that what is in flight still has after Ctrl-C."""

LAST_BYTES = 5
"""Seconds for the last bytes of answers that are complete, after nothing is in flight any more."""

SWITCH_INTERVAL = 0.001
"""Seconds that a thread with long work may keep the event loop waiting. Python's own 5 ms are felt by every stream."""


class Server(uvicorn.Server):
    """Ctrl-C stops at once; SIGTERM finishes what is in flight first, and refuses what is new meanwhile.

    Args:
        app: the application.
        settings: what the server was told.
    """

    def __init__(self, app: Application, settings: Settings) -> None:
        super().__init__(uvicorn.Config(app, **_options(settings)))
        self._gate, self._seconds = app.gate, settings.shutdown_timeout

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Uvicorn's signal handler."""
        if sig == signal.SIGINT:
            self.config.timeout_graceful_shutdown = AT_ONCE  # type: ignore[assignment]  # a float does as well
            super().handle_exit(sig, frame)
        else:
            self._gate.drain(partial(super().handle_exit, sig, frame), self._seconds)


def run(settings: Settings) -> int:
    """Serve until a signal ends it.

    Args:
        settings: what the server was told.

    Returns:
        The exit code.

    Raises:
        TokenizerLoadError: the model cannot be loaded.
        ParserLoadError: a parser cannot be loaded.
        OSError: the address is taken or not allowed.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    # Made before workers are started too: what is wrong is told once, and not by workers that die in a loop.
    with paused_collector():
        app = create_app(settings, _access_log(settings))
    summary = app.state.services.summary()
    if settings.workers > 1:
        log.info("%s at %s, %d workers", summary, _url(settings, settings.host, settings.port), settings.workers)
        del app
        with TemporaryDirectory(prefix="derender-metrics-") as metrics:
            settings.hand_to_workers(metrics)
            _run_workers(settings)
        return 0
    gc.freeze()  # what was made so far stays: to look at all of it, a full collection would stop everything for 40 ms
    server = Server(app, settings)
    # A free port is known once it is bound. A socket's path is left to asyncio, which clears away a stale one.
    bound = None if settings.uds else server.config.bind_socket()
    address = bound.getsockname()[:2] if bound else ("", 0)
    log.info("%s at %s", summary, _url(settings, *address))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[bound] if bound else None)
    return 0 if server.started else 1


def _run_workers(settings: Settings) -> None:
    config = uvicorn.Config(
        "derender_server.serving:worker_app", factory=True, workers=settings.workers, **_options(settings)
    )
    # Bound once by itself: a port that is taken must be an error, also when its owner would share it.
    with config.bind_socket() as bound:
        family, address = bound.family, bound.getsockname()
        if settings.uds or not SharedPort.possible:
            Multiprocess(config, sockets=[bound]).run()
            if settings.uds:
                Path(settings.uds).unlink(missing_ok=True)
            return
    with SharedPort.bind_to(family, address) as shared, contextlib.suppress(KeyboardInterrupt):
        Multiprocess(config, sockets=[shared]).run()


def worker_app() -> Application:
    """The application of one of several worker processes."""
    # Ctrl-C reaches every process at the terminal. Uvicorn's own handler, which is in place here, would drain.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.setswitchinterval(SWITCH_INTERVAL)
    settings = Settings.of_worker()
    set_up_logging(settings)
    if shared := shared_metrics():
        forget_dead_workers(shared)
    with paused_collector():
        app = create_app(settings, _access_log(settings))
    gc.freeze()  # as in `run`
    stop = signal.getsignal(signal.SIGTERM)

    def drain_first(sig: int, frame: FrameType | None) -> None:
        if callable(stop):
            app.gate.drain(partial(stop, sig, frame), settings.shutdown_timeout)

    signal.signal(signal.SIGTERM, drain_first)
    return app


def set_up_logging(settings: Settings) -> None:
    """Log to standard error. The lines of requests go to standard output, see ``access_log``."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _access_log(settings: Settings) -> AccessLog | None:
    shown = settings.log_level in ("info", "debug") and not settings.disable_access_log
    return AccessLog(sys.stdout) if shown else None


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "port": settings.port,
        "uds": settings.uds,
        "root_path": settings.root_path,
        "http": "auto" if sys.platform == "win32" else http_protocol(settings.body_timeout),
        "ssl_keyfile": settings.ssl_keyfile,
        "ssl_certfile": settings.ssl_certfile,
        "log_config": None,
        # One line at start is ours; uvicorn's would be five.
        "log_level": "warning" if settings.log_level == "info" else settings.log_level,
        "access_log": False,
        # Messages may be as large as bodies. To compress small chunks costs more than it saves.
        "ws": "websockets-sansio",
        "ws_max_size": settings.body_limit,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": LAST_BYTES,
    }


def _url(settings: Settings, host: str, port: int) -> str:
    if settings.uds:
        return f"unix:{settings.uds}"
    return f"{'https' if settings.ssl_certfile else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
