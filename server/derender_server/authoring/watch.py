"""`derender check --watch`: check again whenever something changes, in a process that has the new source."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
from importlib_metadata import entry_points

from derender_core.parser import Parser
from derender_core.registry import GROUPS
from derender_core.testing.corpus import corpus_files

__all__ = ["watch", "watched_files"]

_PAUSE = 0.3
"""Seconds between two looks at the files."""


def watch(parser: Parser, corpus: Path) -> NoReturn:
    """Run the command without ``--watch`` now, and after every change. Ends with Ctrl-C."""
    command = [sys.executable, "-m", "derender_server.cli", *(word for word in sys.argv[1:] if word != "--watch")]
    seen: dict[Path, int] = {}
    while True:
        now = {file: file.stat().st_mtime_ns for file in watched_files(parser, corpus) if file.exists()}
        if now != seen:
            changed = sorted(file.name for file in now.keys() | seen.keys() if now.get(file) != seen.get(file))
            if seen:
                click.echo(f"\n-- changed: {', '.join(changed)}", err=True)
            seen = now
            subprocess.run(command)
            click.echo("-- waiting for changes; Ctrl-C ends", err=True)
        time.sleep(_PAUSE)


def watched_files(parser: Parser, corpus: Path) -> Iterator[Path]:
    """The corpus, and the module that the parser comes from, with the others of its package."""
    yield from corpus_files(corpus)
    entries = entry_points(group=GROUPS[parser.slot], name=parser.name)
    modules = [entry.module for entry in entries if entry.dist and entry.dist.name == parser.distribution]
    for name in modules or [type(parser.plugin).__module__]:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield from _with_siblings(Path(file))


def _with_siblings(file: Path) -> Iterator[Path]:
    yield from sorted(file.parent.glob("*.py")) if (file.parent / "__init__.py").exists() else [file]
