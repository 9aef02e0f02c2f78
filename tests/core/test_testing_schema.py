"""The JSON Schema of the corpus format says what the loader does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import derender_core.testing
from derender_core.testing import Case, corpus_schema, load_cases

SHIPPED = Path(derender_core.testing.__file__).parent / "case.schema.json"
DATA = Path(__file__).parent.parent / "data"
VALIDATOR = Draft202012Validator(json.loads(SHIPPED.read_text(encoding="utf-8")))

GOOD: dict[str, Any] = {"id": "a", "output": "hi", "expected": {}}


def test_the_shipped_schema_is_that_of_the_loader() -> None:
    """If this fails: ``derender corpus schema > derender_core/testing/case.schema.json``."""
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == corpus_schema()


def test_it_is_a_json_schema_that_describes_every_key() -> None:
    Draft202012Validator.check_schema(corpus_schema())
    properties = corpus_schema()["properties"]
    assert set(properties) == set(Case.model_fields)
    assert [key for key, value in properties.items() if not ({"description", "$ref"} & set(value))] == []


@pytest.mark.parametrize("file", sorted(DATA.glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_golden_case_fits(file: Path) -> None:
    lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    assert len(lines) == len(load_cases(file))
    assert [error.message for line in lines for error in VALIDATOR.iter_errors(json.loads(line))] == []


@pytest.mark.parametrize(
    "case",
    [
        GOOD,
        {"id": "a", "token_ids": [1, 2], "tokenizer": "qwen3", "unlabelled": True},
        {"id": "a", "output": ["x", ["<t>", 7]], "any_of": [{"content": "x"}]},
        {"id": "a", "output": "x", "expected_error": ["no_tool_calls", "content_passthrough"]},
        {**GOOD, "any_of": [], "expected_error": [], "unlabelled": False},
    ],
)
def test_what_the_loader_takes_fits(case: dict[str, Any]) -> None:
    Case.model_validate(case)
    assert list(VALIDATOR.iter_errors(case)) == []


@pytest.mark.parametrize(
    "case",
    [
        {"id": "a", "expected": {}},
        {"id": "a", "output": "x"},
        {**GOOD, "any_of": [{}]},
        {**GOOD, "unlabelled": True},
        {**GOOD, "output": None},
        {"id": "a", "output": "x", "unlabelled": False},
        {"id": "a", "token_ids": [1], "expected": {}},
        {**GOOD, "tool_choice": "maybe"},
        {**GOOD, "tools": [{"name": ""}]},
        {**GOOD, "check": []},
        {**GOOD, "more": 1},
    ],
)
def test_what_the_loader_refuses_does_not_fit(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Case.model_validate(case)
    assert list(VALIDATOR.iter_errors(case)) != []
