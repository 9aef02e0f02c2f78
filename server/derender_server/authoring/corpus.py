"""`derender corpus`: golden cases checked, recorded from an engine, and taken over from other suites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from derender_server.authoring.failure import CannotRun, cannot_run_on_errors

__all__ = ["corpus"]


@click.group()
def corpus() -> None:
    """Golden cases: validate, record, import."""


@corpus.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--labelled", is_flag=True, help="A case that nobody labelled is an error.")
@click.pass_context
def validate(ctx: click.Context, /, paths: Sequence[Path], labelled: bool) -> None:
    """Check that PATHS, files or directories of them, hold golden cases.

    What is wrong is printed as FILE:LINE: FIELD: what. The exit code is 0 when nothing is, 1 otherwise.
    """
    from derender_core.testing.corpus import CorpusFault, validate_corpus
    from derender_core.testing.schema_fit import SCHEMA_EXTRA, can_check_schemas, schema_faults

    cases, faults = [], []
    with cannot_run_on_errors():
        for path in paths:
            found, wrong = validate_corpus(path)
            cases += found
            faults += wrong
    for case in cases:
        assert case.file is not None
        problems = schema_faults(case) if can_check_schemas() else []
        problems += ["unlabelled: nobody has said what must come"] if labelled and case.unlabelled else []
        faults += [CorpusFault(case.file, case.line, problem) for problem in problems]
    for fault in sorted(faults, key=lambda one: (str(one.file), one.line)):
        click.echo(str(fault))
    files = {case.file for case in cases} | {fault.file for fault in faults}
    unlabelled = sum(case.unlabelled for case in cases)
    counts = f"{_count(len(cases), 'case')} in {_count(len(files), 'file')}"
    click.echo(f"{counts}, {unlabelled} unlabelled; {_count(len(faults), 'error')}", err=True)
    if not can_check_schemas():
        click.echo(f"not checked: the JSON Schemas of tools; install {SCHEMA_EXTRA}", err=True)
    ctx.exit(1 if faults else 0)


@corpus.command()
def schema() -> None:
    """Print the JSON Schema of a line of a corpus."""
    from derender_core.testing import corpus_schema

    click.echo(json.dumps(corpus_schema(), ensure_ascii=False, indent=2))


@corpus.command()
@click.argument("requests", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", required=True, help="The engine, such as http://127.0.0.1:8000.")
@click.option("--model", required=True, help="Renders the prompts: a directory, a Hugging Face repo id, or demo.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The new corpus.")
@click.option(
    "--api",
    type=click.Choice(["generate", "completions"]),
    default="generate",
    show_default=True,
    help="/inference/v1/generate, which gives token ids; or /v1/completions of an OpenAI-compatible server.",
)
@click.option("--engine-model", help="The model's name at the engine, if it is another.")
@click.option("--tool-parser", metavar="NAME", help="The tool parser that the cases are for.")
@click.option("--reasoning-parser", metavar="NAME", help="The reasoning parser that the cases are for.")
@click.option("--licence", help="Under which the cases may be used: an SPDX expression.")
@click.option("--api-key", envvar="DERENDER_ENGINE_API_KEY", show_envvar=True, help="Of the engine.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds to wait for an answer.")
def record(requests: Path, out: Path, **options: Any) -> None:
    """Send the chat REQUESTS to an engine and write its raw outputs as unlabelled cases.

    REQUESTS holds the body of a chat completion request a line, with messages and tools. A key "id" names its case.
    """
    from derender_server.authoring.record import Recording, record_cases

    with cannot_run_on_errors():
        _must_be_new(out)
        count = _write(out, record_cases(requests, Recording(**options)))
    click.echo(
        f"{_count(count, 'unlabelled case')} in {out}; label them, or let `derender check --bless` propose", err=True
    )


@corpus.command("import")
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The new corpus.")
@click.option(
    "--map", "mapped", multiple=True, metavar="KEY=PATH", help="Where a key of ours is, such as output=raw.text."
)
@click.option("--tool-parser", metavar="NAME", help="The tool parser that the cases are for.")
@click.option("--reasoning-parser", metavar="NAME", help="The reasoning parser that the cases are for.")
@click.option("--origin", help="Where the cases come from, for those that do not say it.")
@click.option("--licence", help="Under which they may be used, for those that do not say it.")
@click.pass_context
def import_(ctx: click.Context, /, source: Path, out: Path, mapped: Sequence[str], **defaults: str | None) -> None:
    """Take over the cases of another suite: a JSON object a line, under other names.

    What cannot be a case is printed as FILE:LINE: what, and the exit code is then 1. docs/corpus.md lists the names
    that are known.
    """
    from derender_server.authoring.importing import Import

    with cannot_run_on_errors():
        _must_be_new(out)
        taken = Import(_mapping(mapped), **defaults)
        count = _write(out, taken.cases(source))
    for fault in taken.faults:
        click.echo(str(fault))
    left = f"{taken.unlabelled} unlabelled; {_count(len(taken.faults), 'line')} not taken"
    click.echo(f"{_count(count, 'case')} in {out}, {left}", err=True)
    if taken.ignored:
        keys = ", ".join(f"{key} ({count})" for key, count in sorted(taken.ignored.items()))
        click.echo(f"keys not taken: {keys}", err=True)
    ctx.exit(1 if taken.faults else 0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _mapping(mapped: Sequence[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in mapped]
    wrong = next(("".join(pair) for pair in pairs if not pair[0] or not pair[2]), None)
    if wrong is not None:
        raise CannotRun(f"--map {wrong}: write KEY=PATH, such as output=raw.text")
    return {key: path for key, _, path in pairs}


def _must_be_new(out: Path) -> None:
    if out.exists():
        raise CannotRun(f"{out} exists; cases that people labelled are not written over. Give another --out")


def _write(out: Path, records: Any) -> int:
    """Write what comes, line by line, so that an engine that fails late loses nothing."""
    count = 0
    with out.open("w", encoding="utf-8") as file:
        for record_ in records:
            file.write(json.dumps(record_, ensure_ascii=False) + "\n")
            file.flush()
            count += 1
    return count
