"""What the options and ini settings say. Imports nothing of derender, so that asking costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["add_options", "option", "path_option", "wants_every_case"]

_OPTIONS = {
    "parser": ("NAME", "The installed parser to test; tool:NAME or reasoning:NAME where both have that name."),
    "corpus": ("PATH", "Golden cases to run: a .jsonl file, or a directory of them."),
    "tokenizer": ("DIR", "A directory with tokenizer.json: cut outputs at its tokens, and read cases of token ids."),
}


def add_options(parser: pytest.Parser) -> None:
    """Declare the options; each but the last is an ini setting, too, with underscores in its name."""
    group = parser.getgroup("derender", "golden cases of derender parsers")
    for name, (metavar, text) in _OPTIONS.items():
        group.addoption(f"--derender-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"derender_{name}", text, type="string", default="")
    group.addoption(
        "--derender-all-cases",
        action="store_true",
        default=False,
        help="Run cases that name another parser, too, with this one in its place.",
    )


def option(config: pytest.Config, name: str) -> str | None:
    """An option, or else the ini setting of the same name."""
    return config.getoption(f"--derender-{name}") or config.getini(f"derender_{name}") or None


def path_option(config: pytest.Config, name: str) -> Path | None:
    """A path: from the command line relative to where pytest was started, from the ini file relative to that file."""
    given: str | None = config.getoption(f"--derender-{name}")
    if given:
        return (config.invocation_params.dir / given).resolve()
    ini: str = config.getini(f"derender_{name}")
    place = config.inipath.parent if config.inipath else config.rootpath
    return (place / ini).resolve() if ini else None


def wants_every_case(config: pytest.Config) -> bool:
    """Whether cases of other parsers are to be run, too."""
    return bool(config.getoption("--derender-all-cases"))
