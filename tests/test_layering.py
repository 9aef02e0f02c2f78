"""Imports go one way: derender_server -> derender_core <- derender_plugins."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import derender_core
import derender_plugins
import derender_server

CORE = Path(derender_core.__file__).parent
PLUGINS = Path(derender_plugins.__file__).parent
SERVER = Path(derender_server.__file__).parent

FORBIDDEN_IN_CORE = {"litestar", "uvicorn", "jinja2", "click", "httpx", "pytest", "derender_server", "derender_plugins"}
FORBIDDEN_IN_PLUGINS = FORBIDDEN_IN_CORE | {"tokenizers", "pydantic", "pluggy"}


def modules(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """(module, names, line) of every import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, (), node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), tuple(alias.name for alias in node.names), node.lineno


def offenders(root: Path, forbidden: set[str]) -> list[str]:
    return [
        f"{file.relative_to(root.parent)}:{line} imports {module}"
        for file in modules(root)
        for module, _, line in imports(file)
        if module.split(".")[0] in forbidden
    ]


def test_the_scan_sees_something() -> None:
    assert len(modules(CORE)) > 10
    assert len(modules(PLUGINS)) > 3
    assert offenders(CORE, {"pluggy"}) != []


def test_core_imports_neither_frameworks_nor_its_users() -> None:
    assert offenders(CORE, FORBIDDEN_IN_CORE) == []


def test_plugins_import_no_frameworks() -> None:
    assert offenders(PLUGINS, FORBIDDEN_IN_PLUGINS - {"derender_plugins"}) == []


@pytest.mark.parametrize("file", modules(PLUGINS), ids=lambda file: file.stem)
def test_plugins_use_only_public_names(file: Path) -> None:
    wrong = []
    for module, names, line in imports(file):
        if module.split(".")[0] != "derender_core":
            continue
        if module != "derender_core" or not names:
            wrong.append(f"line {line}: write 'from derender_core import ...', not {module}")
        wrong += [f"line {line}: {name} is not public" for name in names if name not in derender_core.__all__]
    assert wrong == []


def test_core_uses_no_relative_imports() -> None:
    assert [
        f"{file.name}:{line}" for file in modules(CORE) for module, _, line in imports(file) if module.startswith(".")
    ] == []


def loaded_after(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after a statement."""
    script = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import derender_server",
        "from derender_server import Derenderer, Renderer",
    ],
)
def test_the_library_face_of_the_server_loads_no_web_framework(statement: str) -> None:
    loaded = loaded_after(statement)
    assert "derender_server" in loaded
    assert loaded & {"litestar", "uvicorn"} == set()


@pytest.mark.parametrize(
    "statement", ["import derender_core", "import derender_core.testing", "import derender_plugins"]
)
def test_core_loads_nothing_of_the_server(statement: str) -> None:
    loaded = loaded_after(statement)
    assert loaded & {"litestar", "uvicorn", "jinja2", "derender_server", "pytest"} == set()


def test_listing_parsers_loads_no_web_framework() -> None:
    loaded = loaded_after("from derender_core import list_parsers; assert list_parsers()")
    assert loaded & {"litestar", "uvicorn", "jinja2", "derender_server"} == set()
