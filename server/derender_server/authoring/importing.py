"""`derender corpus import`: cases of other suites, which say the same under other names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from derender_core.testing import Case
from derender_core.testing.corpus import CorpusFault, describe_fault
from derender_server.authoring.record import read_tool_choice

__all__ = ["NAMES", "Import"]

Record = dict[str, Any]

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "name", "case_id", "test_id", "case", "title"),
    "output": ("output", "raw_output", "model_output", "raw", "generated_text", "completion", "text", "response"),
    "token_ids": ("token_ids", "output_token_ids", "output_ids"),
    "tokenizer": ("tokenizer", "tokenizer_name"),
    "tools": ("tools", "functions"),
    "tool_choice": ("tool_choice",),
    "template_kwargs": ("template_kwargs", "chat_template_kwargs"),
    "prompt": ("prompt", "prompt_tail", "prompt_suffix"),
    "reasoning_open": ("reasoning_open", "starts_in_reasoning"),
    "finish_reason": ("finish_reason", "stop_reason"),
    "deltas": ("deltas", "chunks"),
    "expected": ("expected", "expected_output", "expected_message", "expected_result", "message"),
    "any_of": ("any_of",),
    "expected_error": ("expected_error", "error_outcomes"),
    "compare": ("compare", "match"),
    "check": ("check", "fields"),
    "tags": ("tags", "labels", "categories"),
    "notes": ("notes", "why", "description", "comment"),
    "source": ("source", "origin", "url", "issue", "reference"),
    "model": ("model", "model_name", "model_id"),
    "licence": ("licence", "license"),
    "tool_parser": ("tool_parser", "tool_call_parser", "parsers.tool", "parsers.tool_call_parser", "parser"),
    "reasoning_parser": ("reasoning_parser", "parsers.reasoning", "parsers.reasoning_parser"),
    "content": ("expected_content",),
    "reasoning_content": ("expected_reasoning_content", "expected_reasoning"),
    "tool_calls": ("expected_tool_calls", "expected_calls"),
}
"""The names under which a key of ours is looked for, the first one found being taken. A dot leads into an object. Keys
may also stand in an object ``input``."""

_MESSAGE: Mapping[str, tuple[str, ...]] = {
    "content": ("content", "text"),
    "reasoning_content": ("reasoning_content", "reasoning", "reasoning_text", "thinking"),
    "tool_calls": ("tool_calls", "calls", "function_calls"),
}


class Import:
    """Reads another suite.

    Args:
        mapping: where keys of ours are, before the known names.
        tool_parser: for cases that name none.
        reasoning_parser: likewise.
        origin: where the cases come from, for those that do not say it.
        licence: likewise.
    """

    def __init__(
        self,
        mapping: Mapping[str, str] | None = None,
        *,
        tool_parser: str | None = None,
        reasoning_parser: str | None = None,
        origin: str | None = None,
        licence: str | None = None,
    ) -> None:
        self._names = {**NAMES, **{key: (path,) for key, path in (mapping or {}).items()}}
        self._parsers = {"tool_parser": tool_parser, "reasoning_parser": reasoning_parser}
        self._defaults = {"source": origin, "licence": licence}
        self.faults: list[CorpusFault] = []
        self.ignored: Counter[str] = Counter()
        self.unlabelled = 0

    def cases(self, source: Path) -> Iterator[Record]:
        """The cases, as they are to be written. What cannot be one is in ``faults`` afterwards."""
        seen: set[str] = set()
        for number, line in enumerate(source.read_text(encoding="utf-8").split("\n"), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise ValueError(f"a case must be a JSON object, this is {type(record).__name__}")
                case = self._case(record, f"{source.stem}-{number}")
                Case.model_validate(case)
            except ValidationError as error:
                self._fault(source, number, "; ".join(describe_fault(dict(one)) for one in error.errors()))
                continue
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self._fault(
                    source, number, str(error) if isinstance(error, ValueError) else f"not understood: {error!r}"
                )
                continue
            if case["id"] in seen:
                self._fault(source, number, f"id {case['id']!r} was used before")
                continue
            seen.add(case["id"])
            self.unlabelled += "unlabelled" in case
            yield case

    def _fault(self, source: Path, line: int, message: str) -> None:
        self.faults.append(CorpusFault(source, line, message))

    def _case(self, record: Record, default_id: str) -> Record:
        inner = record.get("input")
        flat = {**record, **inner} if isinstance(inner, dict) else record
        found, used = self._find(flat)
        self.ignored.update(key for key in flat if key not in used and key != "input")
        case: Record = {"id": str(found.pop("id", default_id)), "parsers": self._named_parsers(found)}
        message = {key: found.pop(key) for key in _MESSAGE if key in found}
        case.update({key: _READERS.get(key, lambda value: value)(value) for key, value in found.items()})
        if message and "expected" not in case:
            case["expected"] = read_message(message)
        if not any(case.get(key) is not None for key in ("expected", "any_of", "expected_error")):
            case["unlabelled"] = True
        for key, value in self._defaults.items():
            if value is not None:
                case.setdefault(key, value)
        return {key: value for key, value in case.items() if value is not None}

    def _find(self, record: Record) -> tuple[Record, set[str]]:
        """Our keys with what they are, and which keys of the record these come from."""
        found: Record = {}
        used: set[str] = set()
        for key, names in self._names.items():
            for name in names:
                top = name.partition(".")[0]
                if top in used and "." not in name:
                    continue
                value = _at(record, name.split("."))
                if value is not None:
                    found[key] = value
                    used.add(top)
                    break
        return found, used

    def _named_parsers(self, found: Record) -> Record:
        names = {key: found.pop(key, None) or default for key, default in self._parsers.items()}
        return {"tool": names["tool_parser"], "reasoning": names["reasoning_parser"]}


def _at(record: object, path: Sequence[str]) -> Any:
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


def read_message(message: Mapping[str, Any]) -> Record:
    """A message under any of the names that are known, as ``expected`` writes it."""
    read: Record = {}
    for key, names in _MESSAGE.items():
        value = next((message[name] for name in names if message.get(name) is not None), None)
        if value is not None:
            read[key] = [_call(call) for call in value] if key == "tool_calls" else value
    return read


def _call(call: Mapping[str, Any]) -> Record:
    """A call, bare or in OpenAI's form; its arguments as an object or as the text of one."""
    function = call.get("function", call)
    arguments = function.get("arguments", function.get("parameters", {}))
    if isinstance(arguments, str):
        return {"name": function["name"], "arguments": json.loads(arguments or "{}")}
    return {"name": function["name"], "arguments": arguments}


def _tool(tool: Mapping[str, Any]) -> Record:
    """A tool, bare or in OpenAI's form."""
    function = tool.get("function", tool)
    schema = function.get("parameters", function.get("input_schema"))
    return {"name": function["name"]} | ({"parameters": schema} if schema is not None else {})


def _texts(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]  # else TypeError


_READERS: Mapping[str, Any] = {
    "tools": lambda tools: [_tool(tool) for tool in tools],
    "tool_choice": read_tool_choice,
    "expected": read_message,
    "any_of": lambda messages: [read_message(message) for message in messages],
    "expected_error": _texts,
    "tags": _texts,
    "check": _texts,
    "source": str,
}
