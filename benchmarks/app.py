"""Our server with two more routes that do nothing: what Litestar and uvicorn themselves cost with the same body.

``/noop`` is what a handler looks like that is written as Litestar's documentation shows: the JSON body is decoded, a
small JSON object is answered. ``/noop/raw`` reads the body and does not decode it: the floor.

    python -m benchmarks.app MODEL SETTINGS_JSON     serves, and prints the address
"""

from __future__ import annotations

import json
import sys
from typing import Any

import uvicorn
from litestar import Litestar, MediaType, Request, Response, post

from derender_server.app import create_app
from derender_server.settings import Settings

__all__ = ["create_benchmark_app"]


@post("/noop", status_code=200)
async def noop(data: dict[str, Any]) -> dict[str, bool]:  # noqa: ARG001 - decoding it is the point
    """Decode the body and do nothing."""
    return {"ok": True}


@post("/noop/raw", status_code=200)
async def noop_raw(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Read the body and do nothing."""
    await request.body()
    return Response(b'{"ok":true}', media_type=MediaType.JSON)


def create_benchmark_app(settings: Settings) -> Litestar:
    """Our application and the routes that do nothing, in one process."""
    app = create_app(settings)
    app.register(noop)
    app.register(noop_raw)
    return app


def main() -> None:
    """Serve on a free port of 127.0.0.1."""
    settings = Settings(model=sys.argv[1], port=0, **json.loads(sys.argv[2]))
    config = uvicorn.Config(create_benchmark_app(settings), port=0, log_level="warning", access_log=False)
    bound = config.bind_socket()
    print("http://{}:{}".format(*bound.getsockname()[:2]), flush=True)
    uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main()
