"""Golden cases: one JSON object a line, each an output of a model and the message it must become.

Keys of a case (only ``id``, ``output`` and ``expected`` or ``any_of`` are needed):

- ``id``: unique in its file.
- ``parsers``: ``{"tool": NAME or null, "reasoning": NAME or null}``.
- ``tools``: the functions offered, bare ``{"name", "parameters"}`` objects. None offered: no tool parsing.
- ``tool_choice``: ``"auto"``, ``"none"``, ``"required"`` or ``"function:NAME"``.
- ``template_kwargs``: the request's ``chat_template_kwargs``.
- ``prompt``: the end of the rendered prompt; null means that nobody knows it.
- ``reasoning_open``: whether the output begins inside reasoning, where that is not to be read from the prompt.
- ``output``: the model's output; or a list of texts and ``[text, token id]`` pairs, where special tokens matter.
- ``finish_reason``: why the engine stopped.
- ``deltas``: one exact cut of the output that must be tried besides all others.
- ``expected``: ``content``, ``reasoning_content``, ``tool_calls``: a list of ``{"name", "arguments"}`` with the
  arguments as an object, and ``arguments_text`` where the very characters matter. What is left out is null or no calls.
- ``any_of``: instead of ``expected``, several messages of which one must come, the same one at every cut.
- ``compare``: ``"strict"``, or ``"soft"``: white space around content and reasoning does not count.
- ``check``: compare only these of ``content``, ``reasoning_content``, ``tool_calls``.
- ``tags``: free words. Three mean something: ``cut`` and ``malformed`` say that a call in the output is cut or
  malformed; ``announced``, that a stream which sends arguments as they come announced it before that was to be seen, so
  that such a stream may hold a call that never ends, or give another message.
- ``notes``, ``source``: for people: why, and where the case comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from derender_core.errors import DerenderError
from derender_core.inputs import Delta, ParseContext, Prompt, Special, Tool
from derender_core.pipeline import Pipeline
from derender_core.registry import load_parser

__all__ = ["Case", "CaseError", "Expected", "ExpectedCall", "load_cases"]


class CaseError(DerenderError, ValueError):
    """A corpus that cannot be read. The message begins with ``file:line``."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseTool(_Model):
    """A function that the request offers."""

    name: str = Field(min_length=1)
    parameters: dict[str, Any] | None = None


class CaseParsers(_Model):
    """The names of the parsers that the case is for."""

    tool: str | None = None
    reasoning: str | None = None


class ExpectedCall(_Model):
    """A call that must come: arguments compare as JSON, types included; ``arguments_text`` by character."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any]
    arguments_text: str | None = None


class Expected(_Model):
    """A message that must come. Null and ``""`` are the same."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ExpectedCall, ...] = ()


class Case(_Model):
    """One golden case. The keys are described in this module's docstring."""

    id: str = Field(min_length=1)
    parsers: CaseParsers = CaseParsers()
    tools: tuple[CaseTool, ...] = ()
    tool_choice: str = Field(default="auto", pattern=r"^(auto|none|required|function:.+)$")
    template_kwargs: dict[str, Any] = Field(default_factory=dict)
    prompt: str | None = None
    reasoning_open: bool | None = None
    output: str | tuple[str | tuple[str, int], ...]
    finish_reason: str | None = "stop"
    deltas: tuple[str, ...] | None = None
    expected: Expected | None = None
    any_of: tuple[Expected, ...] = ()
    compare: Literal["strict", "soft"] = "strict"
    check: tuple[Literal["content", "reasoning_content", "tool_calls"], ...] = Field(
        default=("content", "reasoning_content", "tool_calls"), min_length=1
    )
    tags: tuple[str, ...] = ()
    notes: str | None = None
    source: str | None = None
    where: str = Field(default="", exclude=True, description="File and line; set by the loader.")

    @model_validator(mode="after")
    def _consistent(self) -> Case:
        if (self.expected is None) == (not self.any_of):
            raise ValueError("give either 'expected' or 'any_of'")
        if self.deltas is not None and "".join(self.deltas) != self.text:
            raise ValueError("'deltas' joined must be 'output'")
        return self

    def __str__(self) -> str:
        return f"{self.id} ({self.where})" if self.where else self.id

    @property
    def text(self) -> str:
        """The whole output."""
        if isinstance(self.output, str):
            return self.output
        return "".join(piece if isinstance(piece, str) else piece[0] for piece in self.output)

    @property
    def alternatives(self) -> tuple[Expected, ...]:
        """The messages that are right."""
        return self.any_of or ((self.expected,) if self.expected is not None else ())

    @property
    def whole(self) -> Delta:
        """The output as one delta, special tokens marked, final."""
        specials: list[Special] = []
        at = 0
        for piece in () if isinstance(self.output, str) else self.output:
            text = piece if isinstance(piece, str) else piece[0]
            if not isinstance(piece, str):
                specials.append(Special(at, at + len(text), piece[1]))
            at += len(text)
        return Delta(self.text, tuple(specials), final=True, finish_reason=self.finish_reason)

    def context(self, pipeline: Pipeline, stream_tool_calls: Literal["whole", "arguments"] = "whole") -> ParseContext:
        """The request, with what the parsers read from the prompt."""
        context = ParseContext(
            tools=tuple(Tool(tool.name, tool.parameters) for tool in self.tools),
            tool_choice=self.tool_choice,
            template_kwargs=self.template_kwargs,
            reasoning_open=self.reasoning_open,
            stream_tool_calls=stream_tool_calls,
        )
        return pipeline.open(context, None if self.prompt is None else Prompt(self.prompt))

    def pipeline(self) -> Pipeline:
        """The installed parsers that the case names.

        Raises:
            ParserLoadError: one cannot be loaded.
        """
        tool, reasoning = self.parsers.tool, self.parsers.reasoning
        return Pipeline(
            load_parser("tool", tool) if tool else None, load_parser("reasoning", reasoning) if reasoning else None
        )


def load_cases(path: Path | str) -> list[Case]:
    """Read a corpus: a ``.jsonl`` file, or all of them in a directory. Blank lines are skipped.

    Raises:
        CaseError: a file cannot be read, holds no case, or a line is no case; names the file, the line and the field.
    """
    path = Path(path)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise CaseError(f"{path}: no .jsonl file in this directory")
    return [case for file in files for case in _load_file(file)]


def _load_file(path: Path) -> Iterator[Case]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: cannot be read: {error}") from error
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        case = _load_line(line, f"{path.name}:{number}")
        if case.id in seen:
            raise CaseError(f"{case.where}: id {case.id!r} was used in line {seen[case.id]} already")
        seen[case.id] = number
        yield case
    if not seen:
        raise CaseError(f"{path}: holds no case")


def _load_line(line: str, where: str) -> Case:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise CaseError(f"{where}: not JSON: {error}") from error
    if not isinstance(record, dict):
        raise CaseError(f"{where}: a case must be a JSON object, this is {type(record).__name__}")
    try:
        return Case.model_validate({**record, "where": where})
    except ValidationError as error:
        wrong = "; ".join(
            (".".join(map(str, one["loc"])) + ": " if one["loc"] else "") + one["msg"] for one in error.errors()
        )
        raise CaseError(f"{where}: {wrong}") from error
