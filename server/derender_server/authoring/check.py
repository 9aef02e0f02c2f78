"""`derender check`: a parser held to a corpus."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from derender_core.parser import Parser
from derender_core.testing import LAWS, Case, CorpusReport, cases_for, check_corpus, check_laws, find_parser, load_cases
from derender_core.tokenizer import ModelTokenizer
from derender_server.authoring.failure import CannotRun, cannot_run_on_errors

__all__ = ["check"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class Asked:
    """What is to be checked, loaded.

    Args:
        parser: the parser.
        cases: the cases for it.
        tokenizer: to cut at its tokens.
        corpus: where the cases are from, as given.
    """

    parser: Parser
    cases: list[Case]
    tokenizer: ModelTokenizer | None
    corpus: Path


@click.command()
@click.argument("name")
@click.option(
    "--corpus",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="A .jsonl file, or a directory of them.",
)
@click.option(
    "--tokenizer",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory with tokenizer.json: cut outputs at its tokens, and read cases of token ids.",
)
@click.option("--case", "wanted", multiple=True, metavar="ID", help="Check this case only; may be given again.")
@click.option("--all-cases", is_flag=True, help="Also cases that name another parser, with this one in its place.")
@click.option("--pairs", is_flag=True, help="Cut every output at every place into two, too.")
@click.option("--soup", default=100, show_default=True, type=click.IntRange(0), help="Soups of markers for the laws.")
@click.option("--seed", default=0, show_default=True, help="Of the first soup.")
@click.option("--quiet", is_flag=True, help="Show only what does not hold.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write a JUnit XML report.")
@click.option("--trace", metavar="ID", help="Print what the parser does with this case, delta by delta, and end.")
@click.option(
    "--cut",
    default="special",
    show_default=True,
    help="With --trace: one, special, token, char, 'random, seed N', or 'as the case says'.",
)
@click.option(
    "--mode",
    type=click.Choice(["whole", "arguments"]),
    default="arguments",
    show_default=True,
    help="With --trace: how calls are streamed.",
)
@click.option("--bless", is_flag=True, help="Write what was got as labels into FILE.proposed, to be reviewed.")
@click.option("--watch", is_flag=True, help="Check again whenever the corpus or the parser's source changes.")
@click.pass_context
def check(ctx: click.Context, /, name: str, corpus: Path, tokenizer: Path | None, **more: Any) -> None:
    """Hold the parser NAME to a corpus of golden cases, and to the laws.

    NAME is what `derender parsers` lists; say tool:NAME or reasoning:NAME where both slots have one. The exit code is 0
    when everything holds, 1 when something does not, 2 when it could not be checked.
    """
    with cannot_run_on_errors():
        asked = _load(name, corpus, tokenizer, more["wanted"], every=more["all_cases"])
        if more["watch"]:
            from derender_server.authoring.watch import watch

            watch(asked.parser, corpus)
        if more["trace"] is not None:
            from derender_server.authoring.trace_case import trace_case

            click.echo(trace_case(_one(asked, more["trace"]), asked.parser, asked.tokenizer, more["cut"], more["mode"]))
            return
        report = _run(asked, soup=more["soup"], seed=more["seed"], pairs=more["pairs"])
        _write(report, asked, as_json=more["as_json"], quiet=more["quiet"], junit=more["junit"])
        if more["bless"]:
            _bless(report)
    ctx.exit(0 if report.passed else 1)


def _load(name: str, corpus: Path, directory: Path | None, wanted: Sequence[str], *, every: bool) -> Asked:
    parser = find_parser(name)
    tokenizer = ModelTokenizer.load(directory) if directory is not None else None
    cases = cases_for(parser, load_cases(corpus), every=every)
    asked = Asked(parser, cases, tokenizer, corpus)
    if not wanted:
        return asked
    return Asked(parser, [_one(asked, case_id) for case_id in wanted], tokenizer, corpus)


def _one(asked: Asked, case_id: str) -> Case:
    from derender_core.nearest import did_you_mean

    found = [case for case in asked.cases if case_id in (case.id, case.where)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CannotRun(f"several files have a case {case_id!r}; say " + " or ".join(case.where for case in found))
    near = did_you_mean(case_id, [case.id for case in asked.cases])
    raise CannotRun(f"no case {case_id!r} for the {asked.parser.slot} parser {asked.parser.name!r}.{near}")


def _run(asked: Asked, *, soup: int, seed: int, pairs: bool) -> CorpusReport:
    reports = check_corpus(asked.parser, asked.cases, tokenizer=asked.tokenizer, pairs=pairs)
    with _progress(reports, len(asked.cases), "cases") as steps:
        cases = tuple(steps)
    laws = check_laws(asked.parser, asked.cases, tokenizer=asked.tokenizer, soup=soup, seed=seed)
    with _progress(laws, len(LAWS), "laws") as verdicts:
        return CorpusReport(asked.parser, cases, tuple(verdicts), soup)


@contextmanager
def _progress(items: Iterable[Item], length: int, label: str) -> Iterator[Iterable[Item]]:
    """A progress bar, where there is somebody to see it."""
    hidden = not sys.stderr.isatty()
    with click.progressbar(items, length=length, label=label, file=sys.stderr, hidden=hidden) as bar:
        yield bar


def _write(report: CorpusReport, asked: Asked, *, as_json: bool, quiet: bool, junit: Path | None) -> None:
    from derender_server.authoring.check_reports import as_junit, as_record, as_table

    if junit is not None:
        junit.write_bytes(as_junit(report))
    if as_json:
        click.echo(json.dumps(as_record(report), ensure_ascii=False, indent=2))
    else:
        click.echo(as_table(report, asked.corpus, quiet=quiet))


def _bless(report: CorpusReport) -> None:
    from derender_server.authoring.bless import propose

    for file, count in propose(report):
        click.echo(f"{count} labels proposed in {file}: read them, then move it over the corpus", err=True)
