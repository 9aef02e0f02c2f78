"""The plugin that pytest loads: hooks and fixtures.

    pytest --derender-parser NAME --derender-corpus PATH

runs every case of the corpus as a test, and holds the parser to the laws over them. derender itself is imported only
when there is a corpus or a fixture is used, so other test runs in the same environment notice nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_derender.options import add_options, option, path_option

if TYPE_CHECKING:
    from derender_core import ModelTokenizer, Parser
    from derender_core.testing import Case

__all__ = [
    "derender_cases",
    "derender_parser",
    "derender_tokenizer",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_ignore_collect",
]

_COLLECTED = pytest.StashKey[bool]()
"""Whether a file of the corpus was collected."""
_IN_PART = pytest.StashKey[bool]()
"""Whether only a part of the corpus was asked for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Collect the corpus besides whatever else was asked for."""
    corpus = path_option(config, "corpus")
    if corpus is None:
        return
    if option(config, "parser") is None:
        raise pytest.UsageError("derender: a corpus needs a parser: --derender-parser NAME")
    if not corpus.exists():
        raise pytest.UsageError(f"derender: there is no corpus {corpus}")
    named = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    config.stash[_IN_PART] = any(corpus in path.parents for path in named)
    # pytest 8 forgets tests when one argument lies in another.
    if not any(path == corpus or corpus in path.parents or path in corpus.parents for path in named):
        config.args.append(str(corpus))


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect the corpus even where its directory has a name, such as ``build``, that pytest leaves out."""
    corpus = path_option(config, "corpus")
    return False if corpus is not None and collection_path.resolve() == corpus else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The files of the corpus."""
    corpus = path_option(parent.config, "corpus") if file_path.suffix == ".jsonl" else None
    if corpus is None or corpus not in (file_path.resolve(), file_path.resolve().parent):
        return None
    from pytest_derender.collect import CorpusFile

    parent.config.stash[_COLLECTED] = True
    return CorpusFile.from_parent(parent, path=file_path)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A corpus that nothing was collected of must not look like one that passed."""
    corpus = path_option(session.config, "corpus")
    stash = session.config.stash
    if corpus is not None and not stash.get(_COLLECTED, False) and not stash[_IN_PART]:
        raise pytest.UsageError(
            f"derender: nothing was collected of the corpus {corpus}: it holds no .jsonl file, or lies in a directory "
            "that norecursedirs or --ignore leaves out"
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``derender_case`` once for each case of the corpus that is for the parser."""
    if "derender_case" in metafunc.fixturenames:
        from pytest_derender.chosen import chosen

        cases = chosen(metafunc.config).cases
        metafunc.parametrize("derender_case", cases, ids=[case.id for case in cases])


@pytest.fixture(scope="session")
def derender_parser(pytestconfig: pytest.Config) -> Parser:
    """The parser that ``--derender-parser`` names."""
    from pytest_derender.chosen import chosen

    return chosen(pytestconfig).parser


@pytest.fixture(scope="session")
def derender_cases(pytestconfig: pytest.Config) -> list[Case]:
    """The cases of ``--derender-corpus`` that are for the parser. ``derender_case`` is each of them in turn."""
    from pytest_derender.chosen import chosen

    return chosen(pytestconfig).cases


@pytest.fixture(scope="session")
def derender_tokenizer(pytestconfig: pytest.Config) -> ModelTokenizer | None:
    """The tokenizer in ``--derender-tokenizer``, or None."""
    from pytest_derender.chosen import chosen

    return chosen(pytestconfig).tokenizer
