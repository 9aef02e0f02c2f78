"""Commands that are imported when they are called, so that `derender serve` starts without them."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["COMMANDS", "LazyGroup"]

COMMANDS = {
    "check": "derender_server.authoring.check:check",
    "corpus": "derender_server.authoring.corpus:corpus",
    "demo-engine": "derender_server.demo.command:demo_engine",
    "new-parser": "derender_server.authoring.new_parser:new_parser",
}
"""Where the commands are that a server does not need."""


class LazyGroup(click.Group):
    """A group that has ``COMMANDS`` besides its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, by the alphabet."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
