"""Request bodies: what is accepted, and which field an error names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core.errors import InputError
from derender_server.renderer import Renderer
from derender_server.wire.requests import ChatCompletionRequest, CompletionRequest

ModelMaker = Callable[..., Path]
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def renderer(small_model: ModelMaker) -> Renderer:
    return Renderer.from_pretrained(str(small_model()))


@pytest.mark.parametrize(
    ("fields", "param", "what"),
    [
        ({"messages": []}, "messages", "at least 1 item"),
        ({"messages": [{"content": "x"}]}, "messages.0.role", "required"),
        ({"messages": [{"role": ""}]}, "messages.0.role", "at least 1 character"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages.0.content", "a string, a list of parts or null"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages.0.content.0", "valid dictionary"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type", "required"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages.0.tool_calls.0.function", "required"),
        ({"tools": [{"type": "function"}]}, "tools.0.function", "required"),
        ({"tools": [{"type": "custom", "function": {"name": "f"}}]}, "tools.0.type", "'function'"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools.0.function.name", "at least 1"),
        ({"tool_choice": "some", "tools": [TOOL]}, "tool_choice", "'none', 'auto' or 'required'"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]}, "tool_choice", "'g'"),
        ({"tool_choice": {"type": "function"}, "tools": [TOOL]}, "tool_choice.function", "required"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message", "exclude"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "stream: true"),
        ({"temperature": -0.1}, "temperature", "greater than or equal to 0"),
        ({"temperature": float("nan")}, "temperature", "finite"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_p": 1.1}, "top_p", "less than or equal to 1"),
        ({"top_k": -2}, "top_k", "-1"),
        ({"min_p": 2}, "min_p", "1"),
        ({"presence_penalty": 3}, "presence_penalty", "2"),
        ({"repetition_penalty": 0}, "repetition_penalty", "0"),
        ({"n": 0}, "n", "1"),
        ({"n": 16385}, "n", "16384"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "1"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens", "greater than max_tokens"),
        ({"seed": 2**63}, "seed", "less than"),
        ({"stop": ["a", ""]}, "stop", "empty"),
        ({"stop_token_ids": [-1]}, "stop_token_ids.0", "0"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x", "integer"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "at least 1"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "-1"),
        ({"cache_salt": ""}, "cache_salt", "1 character"),
    ],
)
def test_chat_errors_name_the_field(renderer: Renderer, fields: dict[str, Any], param: str, what: str) -> None:
    with pytest.raises(InputError) as info:
        renderer.render_chat({"messages": [USER]} | fields)
    assert info.value.param == param
    assert what in str(info.value)


@pytest.mark.parametrize(
    ("prompt", "param", "what"),
    [
        (None, "prompt", "a string, a list of strings, a list of token ids or a list of such lists"),
        ({}, "prompt", "a string, a list of strings"),
        ([], "prompt", "at least 1 item"),
        ([[]], "prompt.0", "at least 1 item"),
        ([1, "a"], "prompt.1", "integer"),
        (["a", 1], "prompt.1", "string"),
        ([[1], ["a"]], "prompt.1.0", "integer"),
        ([-1], "prompt.0", "greater than or equal to 0"),
        ([1.5], "prompt.0", "integer"),
    ],
)
def test_completion_errors_name_the_prompt(renderer: Renderer, prompt: object, param: str, what: str) -> None:
    with pytest.raises(InputError) as info:
        renderer.render_completion({"prompt": prompt})
    assert info.value.param == param
    assert what in str(info.value)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": nested(200)}}]}, "tools.0"),
        ({"messages": [USER | {"note": nested(200)}]}, "messages.0"),
        ({"chat_template_kwargs": nested(129)}, "chat_template_kwargs"),
        ({"vllm_xargs": nested(129)}, "vllm_xargs"),
        ({"kv_transfer_params": nested(129)}, "kv_transfer_params"),
        ({"structured_outputs": {"json": nested(200)}}, "structured_outputs"),
        ({"structured_outputs": {"json": json.dumps(nested(200))}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": '{"a": "\\ud800"}'}}, "structured_outputs.json"),
    ],
)
def test_what_could_not_be_written_out_again_is_refused(renderer: Renderer, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InputError) as info:
        renderer.render_chat({"messages": [USER]} | fields)
    assert info.value.param == param


@pytest.mark.rule("8.4")
def test_deep_but_not_too_deep(renderer: Renderer) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": nested(126)}}
    fields = {"tools": [tool], "tool_choice": "required", "vllm_xargs": nested(128)}
    rendered = renderer.render_chat({"messages": [USER], **fields})
    assert json.loads(rendered.model_dump_json())["parse_context"]["tools"] == [tool]


@pytest.mark.rule("1.14")
def test_unknown_fields_are_ignored() -> None:
    body = {"messages": [USER | {"weight": 1}], "invented_next_year": {"a": 1}}
    assert ChatCompletionRequest.model_validate(body).messages[0].raw == USER | {"weight": 1}
    assert CompletionRequest.model_validate({"prompt": "x", "suffix": None, "best_of": 2}).prompt == "x"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "none"),
        ({"tool_choice": "auto"}, "none"),
        ({"tools": []}, "none"),
        ({"tools": [TOOL]}, "auto"),
        ({"tools": [TOOL], "tool_choice": "none"}, "none"),
        ({"tools": [TOOL], "tool_choice": "required"}, "required"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "function:f"),
    ],
)
def test_tool_choice(fields: dict[str, Any], expected: str) -> None:
    assert ChatCompletionRequest.model_validate({"messages": [USER]} | fields).tool_choice_text == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"add_generation_prompt": False}, False),
        ({"continue_final_message": True}, False),
        ({"continue_final_message": True, "add_generation_prompt": False}, False),
    ],
)
def test_generation_prompt(fields: dict[str, Any], expected: bool) -> None:
    assert ChatCompletionRequest.model_validate({"messages": [USER]} | fields).generation_prompt is expected


def test_the_schemas_can_be_shown() -> None:
    for model in (ChatCompletionRequest, CompletionRequest):
        assert model.model_json_schema()["type"] == "object"
