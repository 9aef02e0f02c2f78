"""The documentation is true: tables, outputs, examples, signatures, flags and links are those of the program."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import derender_core
from derender_core import Delta, HookSpecs, ParseContext, Step, list_parsers
from derender_core.testing import Case, assert_case
from derender_server.app import create_app
from derender_server.chat_socket import CLOSE_CODES
from derender_server.chat_socket import ROUTE as SOCKET_ROUTE
from derender_server.errors import ERROR_TYPES
from derender_server.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FORMATS = DOCS / "formats"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"(?ms)^```.*?^```$")


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


update_docs = load_script("update_docs")


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def those_with(language: str) -> list[Any]:
    found = [file for file in DOCUMENTS if blocks(file.read_text(encoding="utf-8"), language)]
    return [pytest.param(file, id=relative(file)) for file in found]


def table_after(text: str, mark: str) -> list[list[str]]:
    """The cells of the first table behind a text, without its head."""
    lines = text[text.index(mark) :].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows[2:]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_there_is_documentation() -> None:
    names = {relative(file) for file in DOCUMENTS}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "docs/hooks.md", "docs/wire.md"} <= names


# -- what a script writes ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> Iterator[Any]:
    """A client of the demo."""
    with update_docs.demo_client() as client:
        yield client


@pytest.mark.parametrize("file", update_docs.DOCS, ids=relative)
def test_tables_and_outputs_are_up_to_date(file: Path, demo: Any) -> None:
    """If this fails, run scripts/update_docs.py and read the difference."""
    expected = update_docs.updated(file, demo)
    assert update_docs.without_times(file.read_text(encoding="utf-8")) == update_docs.without_times(expected)


def test_the_readme_shows_every_endpoint_of_the_demo() -> None:
    shown = {curl.path for curl in update_docs.curls(read("README.md"))}
    served = {path for path in routes() if path not in ("/docs", "/openapi.json", "/ping", SOCKET_ROUTE)}
    assert served <= shown


def test_every_curl_of_the_readme_shows_its_output() -> None:
    curls = update_docs.curls(read("README.md"))
    assert len(curls) >= 12
    assert [curl.command for curl in curls if not curl.shown.strip()] == []


# -- parsers -----------------------------------------------------------------------------------------------------------


def own_parsers() -> set[tuple[str, str]]:
    return {(info.slot, info.name) for info in list_parsers() if info.distribution == "derender"}


@pytest.mark.parametrize("file", ["README.md", "docs/formats/README.md"])
def test_the_table_of_parsers_lists_what_is_installed(file: str) -> None:
    rows = table_after(read(file), "<!-- parsers")
    assert {(row[0], name) for row in rows for name in code(row[1])} == own_parsers()


def test_every_parser_has_a_page_that_names_it() -> None:
    for parser in update_docs.built_ins():
        text = parser.page.read_text(encoding="utf-8")
        assert [name for name in parser.names if f"`{name}`" not in text] == [], relative(parser.page)
        assert "ifferent from vLLM" in text, relative(parser.page)


def test_every_page_belongs_to_a_parser() -> None:
    pages = {parser.page for parser in update_docs.built_ins()}
    assert {file for file in FORMATS.glob("*.md") if file.name != "README.md"} == pages


def cases_in(page: Path) -> Iterator[Case]:
    """The examples of a page; they are for its own parser unless they say otherwise."""
    own = next(parser for parser in update_docs.built_ins() if parser.page == page)
    for block in blocks(page.read_text(encoding="utf-8"), "jsonl"):
        for line in block.splitlines():
            yield Case.model_validate({"parsers": {own.slot: own.names[0]}, **json.loads(line)})


@pytest.mark.parametrize("page", [param for param in those_with("jsonl") if param.values[0].parent == FORMATS])
def test_examples_of_formats_are_golden_cases(page: Path) -> None:
    cases = list(cases_in(page))
    assert cases != []
    for case in cases:
        assert_case(case, pairs=True)


def test_the_changelog_names_every_parser() -> None:
    text = read("CHANGELOG.md")
    assert [name for _, name in sorted(own_parsers()) if f"`{name}`" not in text] == []


# -- hooks, flags, routes ----------------------------------------------------------------------------------------------

HOOKS = sorted(name for name in vars(HookSpecs) if name.startswith("derender_"))


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_documented_with_its_signature(name: str) -> None:
    text = read("docs", "hooks.md")
    signature = inspect.signature(getattr(HookSpecs, name))
    without_self = signature.replace(parameters=list(signature.parameters.values())[1:])
    (section,) = re.findall(rf"(?ms)^## {name}\n(.*?)(?=^## |\Z)", text)
    assert str(without_self).replace("'", "") in "".join(blocks(section, "text")).replace(name, "", 1)
    assert f"def {name}(" in "".join(blocks(section, "python"))
    assert section.index("```python") < section.index("```text")  # the example comes first


def test_only_hooks_that_exist_are_documented() -> None:
    assert sorted(re.findall(r"(?m)^## (derender_\w+)$", read("docs", "hooks.md"))) == HOOKS


def test_all_that_a_parser_is_given_is_documented() -> None:
    text = read("docs", "hooks.md")
    of_context = [field.name for field in dataclasses.fields(ParseContext)]
    fields = [*Delta.__struct_fields__, *of_context, *Step.__struct_fields__]
    assert [name for name in fields if not re.search(rf"`[^`]*\b{name}\b[^`]*`", text)] == []


def test_every_flag_is_documented() -> None:
    rows = table_after(read("docs", "flags.md"), "<!-- flags")
    documented = {code(row[0])[0].split()[0]: code(row[1])[0] for row in rows}
    assert documented == {flag.opts[0]: flag.envvar for flag in update_docs.serve_flags()}


@pytest.mark.parametrize("file", DOCUMENTS, ids=relative)
def test_commands_use_flags_that_exist(file: Path) -> None:
    known = {flag.opts[0] for flag in update_docs.serve_flags()}
    commands = re.findall(r"(?m)^\$ (?:uv run )?derender serve (.*)$", file.read_text(encoding="utf-8"))
    assert {flag for command in commands for flag in re.findall(r"--[\w-]+", command)} <= known


def routes() -> set[str]:
    """What the demo serves."""
    return {route.path for route in create_app(Settings(model="demo")).routes}


def test_every_route_is_documented_and_no_other() -> None:
    rows = table_after(read("docs", "wire.md"), "## Routes")
    assert {path for row in rows for path in code(row[0])} == routes()


def test_every_close_code_is_documented() -> None:
    rows = table_after(read("docs", "wire.md"), "| code |")
    assert {int(row[0]) for row in rows} == set(CLOSE_CODES)


def test_every_error_status_is_documented() -> None:
    rows = table_after(read("docs", "wire.md"), "| status |")
    assert {int(row[0]): code(row[1])[0] for row in rows} == ERROR_TYPES


def test_every_base_of_parsers_is_in_the_architecture() -> None:
    bases = {name for name in derender_core.__all__ if name.endswith("Machine")}
    documented = {code(row[0])[0] for row in table_after(read("docs", "architecture.md"), "| base |")}
    assert bases <= documented


def test_ci_runs_the_command_that_the_readme_names() -> None:
    command = "uv run pytest"
    assert f"$ {command}\n" in read("README.md")
    assert command in read(".ci", "run").splitlines()


# -- examples and links ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", those_with("python"))
def test_python_examples_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a document are one program; a corpus in it is the file ``golden.jsonl``. Its tests are run."""
    text = file.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    corpus = blocks(text, "jsonl")
    if corpus:
        Path("golden.jsonl").write_text("".join(corpus), encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "documented"}
    for block in blocks(text, "python"):
        exec(compile(block, relative(file), "exec", dont_inherit=True), namespace)
    for name, value in list(namespace.items()):
        if name.startswith("test_"):
            value()


def anchors(file: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", DOCUMENTS, ids=relative)
def test_links_resolve(file: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", file.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_document_is_linked() -> None:
    linked = {
        (file.parent / link.partition("#")[0]).resolve()
        for file in DOCUMENTS
        for link in LINK.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
        if not link.startswith("http")
    }
    assert [relative(file) for file in DOCUMENTS if file not in linked and file.parent != ROOT] == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=relative)
def test_documents_name_no_place_of_one_machine(file: Path) -> None:
    assert re.findall(r"(?:^|[\s`(\"'])/(?:work|root|home|tmp|opt)/\S*", file.read_text(encoding="utf-8")) == []
