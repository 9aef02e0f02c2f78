"""The parser, the cases and the tokenizer that the options choose, each loaded once."""

from __future__ import annotations

from functools import cached_property

import pytest

from derender_core import ModelTokenizer, Parser, ParserLoadError, TokenizerLoadError
from derender_core.testing import Case, CaseError, NoCasesError, cases_for, find_parser, load_cases
from pytest_derender.options import option, path_option, wants_every_case

__all__ = ["Chosen", "chosen"]


class Chosen:
    """What the options name. Whatever cannot be had is a ``pytest.UsageError`` that says why."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @cached_property
    def parser(self) -> Parser:
        """The parser."""
        name = option(self._config, "parser")
        if name is None:
            raise pytest.UsageError("derender: no parser: give --derender-parser NAME, or set derender_parser")
        try:
            return find_parser(name)
        except ParserLoadError as error:
            raise pytest.UsageError(f"derender: {error}") from error

    @cached_property
    def cases(self) -> list[Case]:
        """The cases of the corpus that are for the parser; of another one only when all are wanted."""
        corpus = path_option(self._config, "corpus")
        if corpus is None:
            raise pytest.UsageError("derender: no corpus: give --derender-corpus PATH, or set derender_corpus")
        try:
            return cases_for(self.parser, load_cases(corpus), every=wants_every_case(self._config))
        except (CaseError, NoCasesError) as error:
            raise pytest.UsageError(f"derender: {error}".replace("--all-", "--derender-all-")) from error

    @cached_property
    def tokenizer(self) -> ModelTokenizer | None:
        """The tokenizer, if one is named."""
        directory = path_option(self._config, "tokenizer")
        try:
            return ModelTokenizer.load(directory) if directory is not None else None
        except TokenizerLoadError as error:
            raise pytest.UsageError(f"derender: {error}") from error


_KEY = pytest.StashKey[Chosen]()


def chosen(config: pytest.Config) -> Chosen:
    """What this run of pytest has chosen."""
    return config.stash.setdefault(_KEY, Chosen(config))
