"""Write what the documentation shows of the program: tables of parsers and flags, and outputs of the README's curls.

    uv run python scripts/update_docs.py

Tables stand between ``<!-- NAME: ... -->`` and ``<!-- end -->``. A curl is a line that begins with ``$ curl`` in a
``console`` block; its output is what follows up to the next ``$`` line or the end of the block. The tests run the same
functions and compare.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
from importlib_metadata import distribution
from litestar import Litestar
from litestar.testing import TestClient

from derender_core import load_parser
from derender_core.registry import GROUPS
from derender_server.app import create_app
from derender_server.cli import main as cli
from derender_server.demo.engine import DemoEngine
from derender_server.demo.request import EngineRequest
from derender_server.demo.switches import Switches
from derender_server.gateway.engine_chunks import EngineChunks, EngineSource
from derender_server.model import ServedModel
from derender_server.settings import Settings
from derender_server.wire.decode import decode_body
from derender_server.wire.generate import GenerateRequest

sys.path.insert(0, str(Path(__file__).parent))  # the tests load this file from elsewhere
from wire_rules import rules_table

__all__ = ["BuiltIn", "Curl", "answer", "built_ins", "curls", "demo_client", "serve_flags", "updated"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
TABLE = re.compile(r"(<!-- (\w+): .*? -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CONSOLE = re.compile(r"(?ms)^```console\n(.*?)^```$")
WIDTH = 118
SHORT = 40
"""What is longer has a line of its own."""
PASSING = re.compile(r'("(?:created|created_at|t)": ?)\d{9,}')
"""Values that are the time of day."""


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BuiltIn:
    """A parser of this distribution: the names it has in a slot, its module, and the models that it declares."""

    slot: str
    names: tuple[str, ...]
    module: str
    description: str
    models: tuple[str, ...]

    @property
    def page(self) -> Path:
        """Its documentation."""
        return ROOT / "docs" / "formats" / f"{self.module}.md"


def built_ins() -> list[BuiltIn]:
    """The parsers of this distribution, aliases together."""
    found = []
    for slot, group in GROUPS.items():
        names: dict[str, list[str]] = defaultdict(list)
        for entry in distribution("derender").entry_points.select(group=group):
            names[entry.value].append(entry.name)
        for value, same in sorted(names.items(), key=lambda item: item[1]):
            module = value.split(":")[0].rpartition(".")[2]
            same.sort(key=lambda name: (not module.startswith(name), name))
            parser = load_parser(slot, same[0])
            models = dict.fromkeys(name for family in getattr(parser.plugin, "families", ()) for name in family.names)
            found.append(BuiltIn(slot, tuple(same), module, parser.description, tuple(models)))
    return sorted(found, key=lambda one: (one.slot != "tool", one.names))


def parsers_table(file: Path) -> Iterator[str]:
    """All built-in parsers, with links as seen from ``file``."""
    yield "| slot | name | reads | rules |"
    yield "|---|---|---|---|"
    for one in built_ins():
        names = ", ".join(f"`{name}`" for name in one.names)
        link = one.page.relative_to(file.parent).as_posix()
        yield f"| {one.slot} | {names} | {_escape(one.description)} | [{one.page.stem}]({link}) |"


def models_table(file: Path) -> Iterator[str]:  # noqa: ARG001
    """The model families that the built-in parsers declare, with the flags for each."""
    flags: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in built_ins():
        for model in one.models:
            flags[model][one.slot].append(f"`{one.names[0]}`")
    yield "| models | `--tool-call-parser` | `--reasoning-parser` |"
    yield "|---|---|---|"
    for model, slots in sorted(flags.items(), key=lambda item: item[0].lower()):
        yield f"| {model} | {' or '.join(slots['tool'])} | {' or '.join(slots['reasoning'])} |"


def serve_flags() -> list[click.Option]:
    """The flags of ``derender serve``."""
    return [param for param in cli.commands["serve"].params if isinstance(param, click.Option)]


def flags_table(file: Path) -> Iterator[str]:  # noqa: ARG001
    """All flags of ``derender serve``."""
    yield "| flag | environment | default | |"
    yield "|---|---|---|---|"
    for flag in serve_flags():
        kind = "" if flag.is_flag else f" {_metavar(flag)}"
        default = "" if flag.is_flag or flag.default in (None, "", (), {}) else f"`{flag.default}`"
        yield f"| `{flag.opts[0]}{kind}` | `{flag.envvar}` | {default} | {_escape(flag.help or '')} |"


def switches_table(file: Path) -> Iterator[str]:  # noqa: ARG001
    """The switches of ``derender demo-engine``."""
    yield "| switch | default | |"
    yield "|---|---|---|"
    for name, info in Switches.model_fields.items():
        default = "" if info.default in (None, False) else f"`{info.default}`"
        yield f"| `{name}` | {default} | {_escape(info.description or '')} |"


def _metavar(flag: click.Option) -> str:
    if isinstance(flag.type, click.Choice):
        return "{" + ",".join(flag.type.choices) + "}"
    return {"integer": "N", "float": "N", "json": "JSON"}.get(flag.type.name, "TEXT")


def _escape(text: str) -> str:
    return re.sub(r"(</?\w+>)", r"`\1`", text).replace("|", "\\|")


TABLES: dict[str, Callable[[Path], Iterator[str]]] = {
    "parsers": parsers_table,
    "flags": flags_table,
    "switches": switches_table,
    "models": models_table,
    "rules": rules_table,
}


# -- curls -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curl:
    """A curl of the README: what it sends, and the output that is shown."""

    command: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    shown: str


def curls(text: str) -> list[Curl]:
    """The curls in a document."""
    found = []
    for block in CONSOLE.findall(text):
        for step in re.split(r"(?m)^\$ ", block)[1:]:
            command, shown = _split(step)
            if command.startswith("curl "):
                found.append(_read_curl(command, shown))
    return found


def _split(step: str) -> tuple[str, str]:
    """A command, which goes on while its quotes are open or a line ends in a backslash, and what follows it."""
    lines = step.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        command = "".join(lines[:count])
        if command.rstrip("\n").endswith("\\"):
            continue
        try:
            shlex.split(command)
        except ValueError:
            continue
        return command, "".join(lines[count:])
    raise ValueError(f"a command without end: {step}")


def _read_curl(command: str, shown: str) -> Curl:
    words = shlex.split(command.replace("\\\n", " "))
    path, headers, body, method = "", {}, None, "GET"
    rest = iter(words[1:])
    for word in rest:
        if word == "--json":
            body, method = json.loads(next(rest)), "POST"
        elif word == "-H":
            name, _, value = next(rest).partition(":")
            headers[name.strip()] = value.strip()
        elif word == "-w":
            next(rest)
        elif word.startswith("http"):
            path = urlsplit(word).path
    return Curl(command, method, path, headers, body, shown)


class DemoEngines(EngineSource):
    """The demo's engine in this process, for the gateway's whole answers."""

    def __init__(self) -> None:
        self._engine = DemoEngine(ServedModel.load("demo"))

    async def generate(self, request: GenerateRequest) -> bytes:
        """The JSON of its whole response."""
        asked = decode_body(request.model_dump_json().encode(), EngineRequest)
        return msgspec.json.encode(self._engine.response(asked, self._engine.generate(asked)))

    async def stream(self, request: GenerateRequest) -> EngineChunks:
        """Not shown in documents."""
        raise NotImplementedError(request.request_id)


def demo_client() -> TestClient[Litestar]:
    """A client of the demo, in this process."""
    return TestClient(create_app(Settings(model="demo"), engines=DemoEngines()))


def answer(client: TestClient[Litestar], curl: Curl) -> str:
    """What the demo answers, as the README shows it."""
    response = client.request(curl.method, curl.path, headers=curl.headers, json=curl.body)
    if not response.content or "-o /dev/null" in curl.command:
        return f"{response.status_code}\n"
    return layout(response.json()) + "\n"


def layout(value: Any, indent: int = 0, used: int = 0) -> str:
    """JSON that is pleasant to read: what fits into a line is one, and short members share lines.

    Args:
        value: the JSON value.
        indent: of the line that it begins in.
        used: what else stands in that line.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + used + len(flat) < WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
        parts = [key + layout(part, indent + 2, len(key)) for key, part in zip(keys, value.values(), strict=True)]
    else:
        parts = [layout(part, indent + 2) for part in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    margin = " " * (indent + 2)
    lines = ("\n" + margin).join(_lines(parts, WIDTH - indent - 2))
    return f"{ends[0]}\n{margin}{lines}\n{margin[2:]}{ends[1]}"


def _lines(parts: list[str], width: int) -> Iterator[str]:
    line = ""
    for number, part in enumerate(parts, 1):
        piece = part + ("," if number < len(parts) else "")
        if line and (len(line) + 1 + len(piece) > width or len(piece) > SHORT or "\n" in piece):
            yield line
            line = ""
        line += f" {piece}" if line else piece
        if len(piece) > SHORT or "\n" in piece:
            yield line
            line = ""
    if line:
        yield line


def without_times(text: str) -> str:
    """A text with the time of day taken out."""
    return PASSING.sub(r"\g<1>0", text)


# -- updating ----------------------------------------------------------------------------------------------------------


def updated(file: Path, client: TestClient[Litestar]) -> str:
    """The text that a document should have."""
    text = file.read_text(encoding="utf-8")
    text = TABLE.sub(lambda match: match[1] + "\n".join(TABLES[match[2]](file)) + "\n" + match[4], text)
    for curl in curls(text):
        got = answer(client, curl)
        if without_times(got) != without_times(curl.shown.strip("\n") + "\n"):
            text = text.replace(curl.command + curl.shown, curl.command + got + _blank_after(curl.shown))
    return text


def _blank_after(shown: str) -> str:
    return "\n" if shown.endswith("\n\n") else ""


def main() -> None:
    """Bring all documents up to date."""
    with demo_client() as client:
        for file in DOCS:
            text = updated(file, client)
            if text != file.read_text(encoding="utf-8"):
                file.write_text(text, encoding="utf-8")
                print(f"updated {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
