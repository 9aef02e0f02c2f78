"""The golden-case loader and the comparison of messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from derender_core import Message, ParseContext, Special, ToolCall
from derender_core.testing import Case, CaseError, differences, load_cases, same_json

GOOD: dict[str, Any] = {"id": "a", "output": "hi", "expected": {"content": "hi"}}


def write(path: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def case(**keys: Any) -> Case:
    return Case.model_validate({**GOOD, **keys})


def test_reads_a_file_and_skips_blank_lines(tmp_path: Path) -> None:
    cases = load_cases(write(tmp_path / "x.jsonl", GOOD, "", {**GOOD, "id": "b"}))
    assert [(one.id, one.where) for one in cases] == [("a", "x.jsonl:1"), ("b", "x.jsonl:3")]
    assert str(cases[1]) == "b (x.jsonl:3)"


def test_a_line_separator_inside_a_string_ends_no_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": "a", "output": "x\u2028y\x85z", "expected": {}}\n', encoding="utf-8")
    assert load_cases(path)[0].text == "x\u2028y\x85z"


def test_reads_all_files_of_a_directory_in_order(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", GOOD)
    write(tmp_path / "a.jsonl", GOOD)
    write(tmp_path / "note.txt", "no case")
    assert [one.where for one in load_cases(tmp_path)] == ["a.jsonl:1", "b.jsonl:1"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "x.jsonl:2: not JSON"),
        ("[1]", "x.jsonl:2: a case must be a JSON object, this is list"),
        ({"id": "b", "expected": {}}, "x.jsonl:2: give 'output', or 'token_ids'"),
        ({**GOOD, "id": "b", "expected": {"content": 3}}, "x.jsonl:2: expected.content: "),
        ({**GOOD, "id": "b", "expect": {}}, "x.jsonl:2: expect: there is no such key. Did you mean 'expected'?"),
        ({**GOOD, "id": "b", "tool_choice": "maybe"}, "x.jsonl:2: tool_choice: "),
        ({**GOOD, "id": "b", "compare": "close"}, "x.jsonl:2: compare: "),
        ({**GOOD, "id": "b", "check": ["finish_reason"]}, "x.jsonl:2: check.0: "),
        ({**GOOD, "id": "b", "check": []}, "x.jsonl:2: check: "),
        (
            {**GOOD, "id": "b", "tools": [{"name": "f", "strict": True}]},
            "x.jsonl:2: tools.0.strict: there is no such key",
        ),
        ({**GOOD, "id": "b", "tools": [{"parameters": {}}]}, "x.jsonl:2: tools.0.name: "),
        ({"id": "b", "output": ""}, "this has none"),
        ({**GOOD, "id": "b", "any_of": [{}]}, "this has 'expected' and 'any_of'"),
        ({**GOOD, "id": "b", "unlabelled": True}, "this has 'expected' and 'unlabelled'"),
        ({**GOOD, "id": "b", "expected_error": ["ignored"]}, "x.jsonl:2: expected_error.0: "),
        ({"id": "b", "token_ids": [1], "expected": {}}, "'token_ids' need 'tokenizer'"),
        ({**GOOD, "id": "b", "output": ["a"], "token_ids": [1], "tokenizer": "t"}, "'output' must be a text"),
        ({**GOOD, "id": "b", "deltas": ["h"]}, "'deltas' joined must be 'output'"),
        (GOOD, "x.jsonl:2: id 'a' was used in line 1 already"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: object, says: str) -> None:
    with pytest.raises(CaseError) as caught:
        load_cases(write(tmp_path / "x.jsonl", GOOD, line))
    assert says in str(caught.value)
    assert str(caught.value).startswith("x.jsonl:2: ")


def test_missing_and_empty_corpora_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be read"):
        load_cases(tmp_path / "none.jsonl")
    with pytest.raises(CaseError, match=r"no \.jsonl file"):
        load_cases(tmp_path)
    with pytest.raises(CaseError, match="holds no case"):
        load_cases(write(tmp_path / "x.jsonl", ""))


def test_special_tokens_keep_their_ids() -> None:
    whole = case(output=["a", ["[T]", 9], "b"], finish_reason="length").whole
    assert (whole.text, whole.specials, whole.final, whole.finish_reason) == (
        "a[T]b",
        (Special(1, 4, 9),),
        True,
        "length",
    )


def test_the_context_is_the_request() -> None:
    one = case(
        tools=[{"name": "f", "parameters": {"type": "object"}}, {"name": "g"}],
        tool_choice="function:f",
        template_kwargs={"k": 1},
        reasoning_open=True,
    )
    context = one.context(one.pipeline(), "arguments")
    assert context.tool_names == {"f", "g"}
    assert (context.forced_name, context.template_kwargs, context.reasoning_open) == ("f", {"k": 1}, True)
    assert context.stream_tool_calls == "arguments"
    assert isinstance(context, ParseContext)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (1, 1.0), (0, None), ("1", 1), ({"a": 1}, {"a": 1.0}), ([1], [1, 2]), ({"a": 1}, {"b": 1})],
)
def test_types_count_in_json(left: Any, right: Any) -> None:
    assert not same_json(left, right)


def test_equal_json() -> None:
    assert same_json({"a": [1, {"b": None}], "c": 10**30}, {"c": 10**30, "a": [1, {"b": None}]})


CALL = {"name": "f", "arguments": {"n": 1}}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"expected": {"content": "x"}}, Message("x")),
        ({"expected": {"content": ""}}, Message(None)),
        ({"expected": {"content": "x"}, "compare": "soft"}, Message(" x\n")),
        ({"expected": {"content": None}, "compare": "soft"}, Message(" \n")),
        ({"expected": {"tool_calls": [CALL]}}, Message(None, None, (ToolCall("f", '{"n":1}'),))),
        ({"expected": {"content": "x"}, "check": ["tool_calls"]}, Message("other")),
        ({"expected": None, "any_of": [{"content": "x"}, {"reasoning_content": "x"}]}, Message(None, "x")),
    ],
)
def test_messages_that_are_right(keys: dict[str, Any], message: Message) -> None:
    assert differences(case(**keys), message) == []


@pytest.mark.parametrize(
    ("keys", "message", "says"),
    [
        ({"expected": {"content": "x"}}, Message("x "), "white space around it)\n  expected 'x'\n  got      'x '"),
        ({"expected": {}}, Message(None, "r"), "reasoning_content\n  expected None\n  got      'r'"),
        ({"expected": {"tool_calls": [CALL]}}, Message(), 'tool_calls.0\n  expected f {"n": 1}\n  got      no call'),
        (
            {"expected": {}},
            Message(None, None, (ToolCall("f", "{}"),)),
            "tool_calls.0\n  expected no call\n  got      f {}",
        ),
        ({"expected": {"tool_calls": [CALL]}}, Message(None, None, (ToolCall("f", '{"n": 1.0}'),)), "tool_calls.0"),
        ({"expected": {"tool_calls": [CALL]}}, Message(None, None, (ToolCall("g", '{"n": 1}'),)), "tool_calls.0"),
        (
            {"expected": {"tool_calls": [{**CALL, "arguments_text": '{"n":1}'}]}},
            Message(None, None, (ToolCall("f", '{"n": 1}'),)),
            "tool_calls.0",
        ),
        ({"expected": None, "any_of": [{"content": "x"}, {}]}, Message("y"), "alternative 2: content"),
    ],
)
def test_messages_that_are_wrong(keys: dict[str, Any], message: Message, says: str) -> None:
    assert says in "\n".join(differences(case(**keys), message))
