"""`derender new-parser`: a complete project for a parser of one's own."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from string import Template

import click

from derender_core.errors import UnknownParserError
from derender_core.registry import Slot, load_parser
from derender_server.authoring.failure import CannotRun, cannot_run_on_errors
from derender_server.authoring.new_parser_cases import golden_cases

__all__ = ["new_parser", "scaffold"]

_TEMPLATES = Path(__file__).parent / "new_parser_files"
_MARKERS: Mapping[Slot, tuple[str, str]] = {
    "tool": ("<tool_call>", "</tool_call>"),
    "reasoning": ("<think>", "</think>"),
}
_FLAGS: Mapping[Slot, str] = {
    "tool": "--enable-auto-tool-choice --tool-call-parser",
    "reasoning": "--reasoning-parser",
}


class _File(Template):
    """A file with ``@@name`` where something is to be filled in; ``$`` and ``{{`` mean something in a CI file."""

    delimiter = "@@"


@click.command("new-parser")
@click.argument("name")
@click.option(
    "--slot", type=click.Choice(["tool", "reasoning"]), default="tool", show_default=True, help="What it parses."
)
@click.option("--opener", help="The marker that begins a call, or reasoning.")
@click.option("--closer", help="The marker that ends it.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where to put it; derender-NAME when left out.")
def new_parser(name: str, slot: Slot, opener: str | None, closer: str | None, directory: Path | None) -> None:
    """Write a project for the parser NAME, which passes its own tests at once.

    NAME is the value that the server's flag will take, and goes into the names of the distribution and the module.
    """
    markers = _MARKERS[slot]
    with cannot_run_on_errors():
        target = scaffold(name, slot, opener or markers[0], closer or markers[1], directory)
    click.echo(f"{target}: " + ", ".join(sorted(str(file.relative_to(target)) for file in _files(target))))
    click.echo(f"\nNext:\n  cd {target}\n  python -m pip install -e . --group dev\n  pytest")


def _files(target: Path) -> list[Path]:
    return [file for file in target.rglob("*") if file.is_file()]


def scaffold(name: str, slot: Slot, opener: str, closer: str, directory: Path | None = None) -> Path:
    """Write the project.

    Args:
        name: the parser's name.
        slot: "tool" or "reasoning".
        opener: the marker that begins a call, or reasoning.
        closer: the marker that ends it.
        directory: where to put it.

    Returns:
        The directory.

    Raises:
        CannotRun: a name or markers that cannot be, a name that is taken, or a directory that is not empty.
    """
    _check_name(name, slot)
    if not opener.strip() or not closer.strip() or opener == closer:
        raise CannotRun("the opener and the closer must be two different texts that are not blank")
    plain = re.sub(r"[-.]", "_", name)
    values = {
        "name": name,
        "slot": slot,
        "distribution": "derender-" + re.sub(r"[_.]", "-", name),
        "module": f"derender_{plain}",
        "class_name": "".join(part[:1].upper() + part[1:] for part in plain.split("_")),
        "opener_literal": json.dumps(opener, ensure_ascii=False),
        "closer_literal": json.dumps(closer, ensure_ascii=False),
        "flags": f"{_FLAGS[slot]} {name}",
        "version": version("derender"),
    }
    target = directory or Path(values["distribution"])
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CannotRun(f"{target} exists and is not empty; give another --directory")
    for file, template in _layout(values, slot).items():
        path = target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _File((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)
        path.write_text(text, encoding="utf-8")
    cases = golden_cases(slot, name, opener, closer)
    lines = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    (target / "golden.jsonl").write_text(lines, encoding="utf-8")
    return target


def _layout(values: Mapping[str, str], slot: Slot) -> dict[str, str]:
    return {
        "pyproject.toml": "pyproject.toml.txt",
        f"{values['module']}.py": f"{slot}.py.txt",
        f"test_{values['module']}.py": f"test_{slot}.py.txt",
        "README.md": "README.md.txt",
        ".gitignore": "gitignore.txt",
        ".github/workflows/test.yml": "ci.yml.txt",
    }


def _check_name(name: str, slot: Slot) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise CannotRun(f"{name!r} cannot name a parser: use small letters and digits, with -, _ or . between them")
    try:
        parser = load_parser(slot, name)
    except UnknownParserError:
        return
    raise CannotRun(
        f"{parser.distribution} {parser.version} has a {slot} parser {name!r} already, and a name that two "
        "distributions declare is refused; choose another one"
    )
