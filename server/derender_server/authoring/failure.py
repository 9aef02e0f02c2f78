"""How a command for authors ends when it cannot do what it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from derender_core.errors import DerenderError

__all__ = ["CannotRun", "cannot_run_on_errors"]


class CannotRun(click.ClickException):
    """It did not run at all, which is told from a check that failed by the exit code 2."""

    exit_code = 2


@contextmanager
def cannot_run_on_errors() -> Iterator[None]:
    """Turn our own errors into messages."""
    try:
        yield
    except (DerenderError, OSError) as error:
        raise CannotRun(str(error)) from error
