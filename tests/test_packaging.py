"""What is installed: the wheel's contents, its entry points, and what comes with it.

The wheel is built from a copy of the sources, and installed with its dependencies into a fresh environment. Without a
registry these tests are skipped, except in CI, where they fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = {
    "derender_core": ROOT / "derender_core",
    "derender_plugins": ROOT / "derender_plugins",
    "derender_server": ROOT / "server" / "derender_server",
    "pytest_derender": ROOT / "pytest_derender",
}
FOR_PYTEST = "pytest_derender"
"""Loaded by pytest alone, which the installed distribution does not bring."""
DEV_ONLY = {"transformers", "openai", "anthropic", "hypothesis", "pytest", "_pytest", "mypy", "build", "jsonschema"}
LARGEST_ENVIRONMENT = 150 * 10**6

IMPORT_ALL = f"""
import importlib, pkgutil, sys
for name in {sorted(SOURCES.keys() - {FOR_PYTEST})}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
print(*sorted({{name.split(".")[0] for name in sys.modules}}))
"""

# One round trip with the demo's own files, by the library, so that data files and templates are found as installed.
ROUND_TRIP = """
import json
from derender_server import Derenderer, Renderer
parsers = {"tool_parser": "hermes", "reasoning_parser": "qwen3"}
request = {"messages": [{"role": "user", "content": "Hello"}]}
rendered = Renderer.from_pretrained("demo", **parsers).render_chat(request)
derenderer = Derenderer.from_pretrained("demo", **parsers)
output = derenderer.model.tokenizer.encode("<think>\\nHm.\\n</think>\\n\\nHi.<|im_end|>")
completion = derenderer.derender_chat({
    "generate_response": {"request_id": "chatcmpl-1", "choices": [{"index": 0, "token_ids": output}]},
    "chat_request": request,
    "prompt_token_ids": rendered.token_ids,
})
print(json.dumps(completion["choices"][0]["message"]))
"""

SERVE = """
from derender_server.app import create_app
from derender_server.settings import Settings
app = create_app(Settings(model="demo"))
print(*sorted(route.path for route in app.routes), sep="\\n")
"""


class Environment:
    """A virtual environment, used from an empty directory."""

    def __init__(self, python: Path, cwd: Path) -> None:
        self.python, self.cwd = python, cwd

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        program = shutil.which(command[0], path=str(self.python.parent))
        assert program is not None, f"{command[0]} is not installed"
        return subprocess.run([program, *command[1:]], capture_output=True, text=True, cwd=self.cwd, env=variables)

    def script(self, text: str) -> str:
        """What a script prints."""
        run = self.run(self.python.name, "-c", text)
        assert run.returncode == 0, run.stderr
        return run.stdout


@pytest.fixture(scope="module")
def wheel(uv: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that no old build can be in it."""
    copy = tmp_path_factory.mktemp("source")
    for file in ("pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]):
        shutil.copy(ROOT / file, copy)
    for source in SOURCES.values():
        shutil.copytree(source, copy / source.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("dist")
    uv("build", "--wheel", "--out-dir", target, copy)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, uv: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh environment that holds the wheel and its dependencies."""
    place = tmp_path_factory.mktemp("fresh")
    uv("venv", "--python", sys.executable, place / "venv")
    python = place / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    uv("pip", "install", "--compile-bytecode", "--python", python, wheel)
    (place / "empty").mkdir()
    return Environment(python, place / "empty")


@pytest.fixture
def editable(tmp_path: Path) -> Environment:
    """The environment that runs these tests."""
    return Environment(Path(sys.executable), tmp_path)


@pytest.fixture(params=["installed", "editable"])
def environment(request: pytest.FixtureRequest) -> Environment:
    """Both."""
    found: Environment = request.getfixturevalue(request.param)
    return found


# -- the wheel ---------------------------------------------------------------------------------------------------------


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in wheel_files(wheel)}
    assert tops == {*SOURCES, f"derender-{PROJECT['version']}.dist-info"}


def test_the_wheel_holds_every_file_of_the_sources(wheel: Path) -> None:
    expected = {
        f"{name}/{file.relative_to(source).as_posix()}"
        for name, source in SOURCES.items()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in wheel_files(wheel) if ".dist-info/" not in name} == expected


def test_the_wheel_is_typed_and_brings_the_demo_model(wheel: Path) -> None:
    model = {"tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json", "chat_template.jinja"}
    needed = {f"{name}/py.typed" for name in SOURCES} | {f"derender_server/demo/model/{file}" for file in model}
    assert needed <= wheel_files(wheel)
    assert f"derender-{PROJECT['version']}.dist-info/licenses/LICENSE" in wheel_files(wheel)


# -- the installed distribution ----------------------------------------------------------------------------------------


def test_every_parser_loads(environment: Environment) -> None:
    run = environment.run("derender", "parsers", "--json")
    assert run.returncode == 0, run.stderr
    own = [info for info in json.loads(run.stdout) if info["distribution"] == PROJECT["name"]]
    assert [info for info in own if info["error"]] == []
    for slot in ("tool", "reasoning"):
        declared = PROJECT["entry-points"][f"derender.{slot}_parsers"]
        assert {info["name"] for info in own if info["slot"] == slot} == set(declared)


def test_every_entry_point_resolves(installed: Environment) -> None:
    resolve = """
from importlib.metadata import distribution
entries = [entry for entry in distribution("derender").entry_points if entry.group != "pytest11"]
for entry in entries:
    entry.load()
print(*sorted(f"{entry.group} {entry.name}" for entry in entries), sep="\\n")
"""
    declared = {f"console_scripts {name}" for name in PROJECT["scripts"]}
    for group, entries in PROJECT["entry-points"].items():
        if group != "pytest11":  # loads pytest, which is not a dependency
            declared |= {f"{group} {name}" for name in entries}
    assert set(installed.script(resolve).splitlines()) == declared


def test_the_command_tells_the_version(environment: Environment) -> None:
    run = environment.run("derender", "version")
    assert (run.returncode, run.stdout) == (0, f"{PROJECT['version']}\n"), run.stderr


@pytest.mark.parametrize("name", ["server", "tests", "examples", "benchmarks", "scripts", "plugins_example"])
def test_folders_of_the_repository_cannot_be_imported(environment: Environment, name: str) -> None:
    run = environment.run(environment.python.name, "-c", f"import {name}")
    assert run.returncode != 0
    assert f"No module named '{name}'" in run.stderr


def test_the_demo_model_works_as_installed(installed: Environment) -> None:
    message = json.loads(installed.script(ROUND_TRIP))
    assert message == {"role": "assistant", "content": "Hi.", "reasoning": "Hm."}


def test_the_demo_server_starts_as_installed(installed: Environment) -> None:
    paths = installed.script(SERVE).splitlines()
    assert {"/v1/chat/completions/derender", "/inference/v1/generate", "/docs", "/health"} <= set(paths)


def test_dependencies_stay_small(installed: Environment) -> None:
    files = [file for file in installed.python.parent.parent.rglob("*") if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files)
    assert 10**7 < size < LARGEST_ENVIRONMENT


# -- what is imported --------------------------------------------------------------------------------------------------


def test_every_module_imports_with_the_runtime_dependencies_alone(installed: Environment) -> None:
    assert SOURCES.keys() - {FOR_PYTEST} <= set(installed.script(IMPORT_ALL).split())


def test_no_module_reaches_for_what_only_developers_have(editable: Environment) -> None:
    assert set(editable.script(IMPORT_ALL).split()) & DEV_ONLY == set()
