"""A file of the corpus as tests: one for each case, and one for each law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from derender_core import Parser
from derender_core.testing import LAWS, Case, Failed, Law, assert_laws, check_case, pipeline_for
from pytest_derender.chosen import chosen

__all__ = ["CaseItem", "CorpusFile", "LawItem"]

_SOUPS = 60


class CorpusFile(pytest.File):
    """A ``.jsonl`` file of the corpus."""

    def collect(self) -> Iterator[pytest.Item]:
        """The cases that are for the parser, and the laws over them."""
        parser = chosen(self.config).parser
        cases = [case for case in chosen(self.config).cases if case.file == self.path.resolve()]
        for case in cases:
            yield CaseItem.from_parent(self, name=case.id, case=case, parser=parser)
        if cases:
            for law in LAWS:
                yield LawItem.from_parent(self, name=f"law-{law.__name__}", law=law, cases=cases, parser=parser)


class _Item(pytest.Item):
    """Shows a failure as its report, without a traceback of what ran it."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **more: Any) -> Any:
        """The report."""
        if isinstance(excinfo.value, Failed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **more)


class CaseItem(_Item):
    """One case: one-shot, and at every cut.

    Args:
        case: the case.
        parser: the parser under test.
    """

    def __init__(self, *, case: Case, parser: Parser, **more: Any) -> None:
        super().__init__(**more)
        self.case, self.parser = case, parser
        self.user_properties.append(("compare", case.compare))

    def runtest(self) -> None:
        """Check the case.

        Raises:
            Failed: something does not hold.
        """
        tokenizer = chosen(self.config).tokenizer
        report = check_case(self.case, pipeline_for(self.parser, self.case), tokenizer=tokenizer)
        self.user_properties.append(("match", report.match))
        for check in report.checks:
            if check.status == "warn":
                self.add_report_section("call", f"derender {check.name}", check.detail)
        if report.failures:
            raise Failed("\n\n".join(f"[{check.name}] {check.detail}" for check in report.failures))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case is written."""
        return self.path, self.case.line - 1, f"case {self.case.id}"


class LawItem(_Item):
    """One law, over the outputs of the cases and over soups of their markers.

    Args:
        law: the law.
        cases: the cases of the file.
        parser: the parser under test.
    """

    def __init__(self, *, law: Law, cases: Iterable[Case], parser: Parser, **more: Any) -> None:
        super().__init__(**more)
        self.law, self.cases, self.parser = law, list(cases), parser

    def runtest(self) -> None:
        """Hold the parser to the law.

        Raises:
            Failed: it breaks it.
        """
        assert_laws(self.parser, self.cases, laws=[self.law], soup=_SOUPS, tokenizer=chosen(self.config).tokenizer)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The law has no line."""
        return self.path, None, f"law {self.law.__name__}"
