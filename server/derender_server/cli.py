"""The command line: ``derender serve``, ``parsers`` and ``version``; the others are loaded late."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict
from importlib.metadata import version as installed_version
from typing import Any

import click
from pydantic import ValidationError

from derender_core.errors import DerenderError
from derender_server.authoring.lazy import LazyGroup
from derender_server.collector import paused_collector
from derender_server.flags import flags_of
from derender_server.settings import Settings

__all__ = ["main"]

log = logging.getLogger("derender")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Render chat requests to token ids, and derender token ids to OpenAI answers."""


@main.command()
@click.argument("model", envvar=Settings.flag_variable("model"))
@flags_of(Settings, leave_out={"model"}, variable=Settings.flag_variable)
def serve(**values: Any) -> None:
    """Serve MODEL: a directory, a Hugging Face repo id, or `demo`."""
    with paused_collector():
        from derender_server.serving import run, set_up_logging

    try:
        settings = Settings(**values).with_demo_defaults()
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else "settings"
        raise click.BadParameter(first["msg"], param_hint=flag) from error
    set_up_logging(settings)
    if settings.tool_call_parser and not settings.enable_auto_tool_choice:
        log.warning(
            "--tool-call-parser %s without --enable-auto-tool-choice: calls with tool_choice auto stay text",
            settings.tool_call_parser,
        )
    try:
        code = run(settings)
    except (DerenderError, OSError) as error:  # a parser, the model's files; the address, the certificate
        raise click.ClickException(str(error)) from error
    sys.exit(code)


@main.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--check", is_flag=True, help="Load each, ask it everything, let it parse, and say what is wrong.")
def parsers(names: tuple[str, ...], as_json: bool, check: bool) -> None:
    """List the installed parsers: all, or those with these NAMES."""
    from derender_core.registry import list_parsers

    if check:
        sys.exit(_check_parsers(names, as_json))
    found = [asdict(info) for info in list_parsers() if not names or info.name in names]
    if not found:
        raise click.ClickException(_none_of(names))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    rows = [(info["slot"], info["name"], f"{info['distribution']} {info['version']}", _line(info)) for info in found]
    _print_table([("SLOT", "NAME", "FROM", "DESCRIPTION"), *rows])


def _none_of(names: tuple[str, ...]) -> str:
    return f"No parser is named {' or '.join(names)}; derender parsers lists those that are installed."


def _check_parsers(names: tuple[str, ...], as_json: bool) -> int:
    """Print what is wrong with each parser; the exit code."""
    from derender_server.parser_check import check_parsers

    found = list(check_parsers(names))
    if not found:
        raise click.ClickException(_none_of(names))
    if as_json:
        click.echo(json.dumps([finding.as_json() for finding in found], indent=2))
    else:
        rows = [("SLOT", "NAME", "FROM", "CHECK")]
        for finding in found:
            lines = [*finding.problems, *(f"note: {note}" for note in finding.notes)]
            if not finding.problems:
                lines.insert(0, "ok")
            rows.append((finding.slot, finding.name, f"{finding.distribution} {finding.version}", lines[0]))
            rows += [("", "", "", line) for line in lines[1:]]
        _print_table(rows)
    code = 1 if any(finding.problems for finding in found) else 0
    if any(finding.hangs for finding in found):
        sys.stdout.flush()
        os._exit(code)
    return code


def _print_table(rows: list[tuple[str, str, str, str]]) -> None:
    """The first row is the heads; the last column is as wide as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip())


def _line(info: dict[str, Any]) -> str:
    return f"cannot be loaded: {info['error']}" if info["error"] else str(info["description"])


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(installed_version("derender"))


if __name__ == "__main__":
    main()
