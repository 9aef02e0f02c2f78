"""``Case``: an output of a model, and the message that it must become.

A corpus holds one case a line, as a JSON object. ``docs/corpus.md`` explains the keys, ``case.schema.json`` beside this
module is their JSON Schema, and ``derender corpus validate`` checks files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from derender_core.errors import DerenderError
from derender_core.inputs import Delta, ParseContext, Prompt, Special, Tool
from derender_core.pipeline import Pipeline
from derender_core.registry import load_parser

__all__ = ["Case", "CaseError", "CaseParsers", "CaseTool", "Expected", "ExpectedCall", "Outcome", "corpus_schema"]

Outcome = Literal["no_tool_calls", "content_passthrough"]
"""What may become of an output that is no valid answer, where the exact message is open."""

_LABELS = ("expected", "any_of", "expected_error", "unlabelled")


class CaseError(DerenderError, ValueError):
    """A corpus that cannot be read, or a case that cannot be run. The message begins with ``file:line``."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseTool(_Model):
    """A function that the request offers."""

    name: str = Field(min_length=1)
    parameters: dict[str, Any] | None = Field(default=None, description="The JSON Schema of its arguments.")


class CaseParsers(_Model):
    """The names of the parsers that the case is for; null: any in this slot, or none."""

    tool: str | None = None
    reasoning: str | None = None


class ExpectedCall(_Model):
    """A call that must come."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(description="Compared as JSON, types included: 1, 1.0 and true differ.")
    arguments_text: str | None = Field(default=None, description="Where the very characters of the arguments matter.")


class Expected(_Model):
    """A message that must come. Null and the empty text are the same; what is left out is null, or no calls."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ExpectedCall, ...] = ()


def _add_rules(schema: dict[str, Any]) -> None:
    """What types alone cannot say: the keys of which a case has one, or needs another."""
    given = {
        "expected": {"required": ["expected"], "properties": {"expected": {"type": "object"}}},
        "any_of": {"required": ["any_of"], "properties": {"any_of": {"minItems": 1}}},
        "expected_error": {"required": ["expected_error"], "properties": {"expected_error": {"minItems": 1}}},
        "unlabelled": {"required": ["unlabelled"], "properties": {"unlabelled": {"const": True}}},
    }
    schema["oneOf"] = [given[name] for name in _LABELS]
    schema["anyOf"] = [
        {"required": ["output"], "properties": {"output": {"not": {"type": "null"}}}},
        {"required": ["token_ids"], "properties": {"token_ids": {"type": "array"}}},
    ]
    schema["dependentRequired"] = {"token_ids": ["tokenizer"]}


class Case(_Model):
    """One golden case: a line of a corpus."""

    model_config = ConfigDict(json_schema_extra=_add_rules)

    id: str = Field(min_length=1, description="Unique in its file.")
    parsers: CaseParsers = CaseParsers()
    tools: tuple[CaseTool, ...] = Field(default=(), description="The functions offered. None: no tool parsing.")
    tool_choice: str = Field(
        default="auto",
        pattern=r"^(auto|none|required|function:.+)$",
        description='"auto", "none", "required", or "function:NAME" for a named one.',
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="The request's chat_template_kwargs, such as enable_thinking."
    )
    prompt: str | None = Field(default=None, description="The end of the rendered prompt; null: nobody knows it.")
    reasoning_open: bool | None = Field(
        default=None, description="Whether the output begins inside reasoning, where the prompt is not to tell."
    )
    output: str | tuple[str | tuple[str, int], ...] | None = Field(
        default=None,
        description="The model's output: a text, or texts and [text, token id] pairs where special tokens matter.",
    )
    token_ids: tuple[int, ...] | None = Field(
        default=None,
        description="The model's output as token ids. With output, too, their text must be that, special tokens kept.",
    )
    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="Which tokenizer token_ids belong to: a directory beside the corpus, or a model's name.",
    )
    finish_reason: str | None = Field(default="stop", description="Why the engine stopped.")
    deltas: tuple[str, ...] | None = Field(
        default=None, description="One exact cut of the output that must be tried besides all others."
    )
    expected: Expected | None = Field(default=None, description="The message that must come.")
    any_of: tuple[Expected, ...] = Field(
        default=(), description="Several messages of which one must come, the same one at every cut."
    )
    expected_error: tuple[Outcome, ...] = Field(
        default=(),
        description="For outputs that are no valid answer: what may become of them. One of these must hold, at all "
        "cuts alike. no_tool_calls: no call comes out. content_passthrough: no call, and the output is the content.",
    )
    unlabelled: bool = Field(
        default=False, description="Nobody has said yet what must come. All is checked but the message."
    )
    compare: Literal["strict", "soft"] = Field(
        default="strict", description="soft: white space around content and reasoning does not count."
    )
    check: tuple[Literal["content", "reasoning_content", "tool_calls"], ...] = Field(
        default=("content", "reasoning_content", "tool_calls"), min_length=1, description="Compare only these."
    )
    tags: tuple[str, ...] = Field(
        default=(),
        description="Free words, three of which mean something. cut, malformed: a call in the output is cut or "
        "malformed. announced: a stream that sends arguments as they come announced it before that was to be seen, so "
        "that such a stream may hold a call that never ends, or give another message.",
    )
    notes: str | None = Field(default=None, description="Why this case is here.")
    source: str | None = Field(default=None, description="Where the output comes from: a model's run, a report, a URL.")
    model: str | None = Field(default=None, description="The model that wrote the output.")
    licence: str | None = Field(default=None, description="Under which the case may be used: an SPDX expression.")
    _where: str = PrivateAttr("")
    _file: Path | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        labels = [name for name in _LABELS if getattr(self, name)]
        if self.expected is not None and "expected" not in labels:
            labels.append("expected")
        if len(labels) != 1:
            given = " and ".join(f"'{name}'" for name in labels) or "none"
            raise ValueError(
                f"give exactly one of 'expected', 'any_of', 'expected_error' and 'unlabelled': true, this has {given}"
            )
        if self.output is None and self.token_ids is None:
            raise ValueError("give 'output', or 'token_ids' with their 'tokenizer'")
        if self.token_ids is not None and self.tokenizer is None:
            raise ValueError("'token_ids' need 'tokenizer': a directory beside the corpus, or the model's name")
        if self.token_ids is not None and not isinstance(self.output, (str, type(None))):
            raise ValueError("with 'token_ids', 'output' must be a text")
        if self.deltas is not None and "".join(self.deltas) != self.text:
            raise ValueError("'deltas' joined must be 'output'")
        return self

    def __str__(self) -> str:
        return f"{self.id} ({self.where})" if self.where else self.id

    def placed(self, file: Path, line: int) -> Case:
        """This case, with where it was read from."""
        copy = self.model_copy()
        copy._where, copy._file = f"{file.name}:{line}", file
        return copy

    @property
    def where(self) -> str:
        """File and line; empty when it was not read from a file."""
        return self._where

    @property
    def file(self) -> Path | None:
        """The file that it was read from."""
        return self._file

    @property
    def line(self) -> int:
        """Its line in the file, from 1; 0 when it was not read from a file."""
        return int(self._where.rpartition(":")[2] or 0)

    @property
    def text(self) -> str:
        """The whole output as text; empty when only token ids are given."""
        if self.output is None:
            return ""
        if isinstance(self.output, str):
            return self.output
        return "".join(piece if isinstance(piece, str) else piece[0] for piece in self.output)

    @property
    def alternatives(self) -> tuple[Expected, ...]:
        """The messages that are right; none when the case does not say so exactly."""
        return self.any_of or ((self.expected,) if self.expected is not None else ())

    @property
    def whole(self) -> Delta:
        """The output as one delta, special tokens marked, final. Of token ids alone, ``open_case`` gives it."""
        specials: list[Special] = []
        at = 0
        for piece in () if isinstance(self.output, (str, type(None))) else self.output:
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
            has_token_ids=bool(self.whole.specials),
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


def corpus_schema() -> dict[str, Any]:
    """The JSON Schema of a line of a corpus, as it ships in ``case.schema.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Case.model_json_schema(),
    }
