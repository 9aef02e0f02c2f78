"""`derender demo-engine`: the scripted engine in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import click
from pydantic import ValidationError

from derender_core.errors import DerenderError
from derender_server.demo.stand_in import serve_stand_in
from derender_server.demo.switches import Switches
from derender_server.flags import flags_of
from derender_server.model import ServedModel

__all__ = ["demo_engine"]

log = logging.getLogger("derender")

OF_REQUESTS = frozenset({"token_ids"})
"""Switches that make no sense on a command line."""


@click.command()
@click.argument("model", default="demo")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8100, show_default=True, help="Port to listen on; 0 picks a free one.")
@click.option("--served-model-name", "names", multiple=True, help="Name to serve the model under.")
@click.option("--max-model-len", type=int, help="Tokens of prompt and output together.")
@flags_of(Switches, leave_out=OF_REQUESTS)
def demo_engine(
    model: str, host: str, port: int, names: tuple[str, ...], max_model_len: int | None, **switches: object
) -> None:
    """Run an engine that plays a script in the vocabulary of MODEL, to try gateways and routers with.

    A request may bring switches of its own, as sampling_params.extra_args.demo_engine.
    """
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = {name: value for name, value in switches.items() if value is not None}
    try:
        told = Switches.model_validate(given)
        _run(_serve(ServedModel.load(model, names=names, max_model_len=max_model_len), told, host, port))
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else "switches"
        raise click.BadParameter(first["msg"], param_hint=flag) from error
    except (DerenderError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _run(serving: Coroutine[Any, Any, None]) -> None:
    if sys.platform == "win32":
        asyncio.run(serving)
    else:
        import uvloop  # a third of the time for each chunk is the event loop's

        uvloop.run(serving)


async def _serve(model: ServedModel, switches: Switches, host: str, port: int) -> None:
    """Serve until a signal comes."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows; there Ctrl-C raises
            loop.add_signal_handler(number, ending.set)
    async with serve_stand_in(model, switches, host=host, port=port) as stand_in:
        log.info("the demo engine plays %s at %s", model.name, stand_in.url)
        await ending.wait()
