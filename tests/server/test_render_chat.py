"""Chat requests to engine requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core.errors import InputError
from derender_core.events import Text
from derender_core.hookspecs import State, Step, hookimpl
from derender_core.inputs import Delta, Prompt
from derender_core.pipeline import Pipeline
from derender_core.registry import make_parser
from derender_server.model import ServedModel, UnknownModelError
from derender_server.renderer import Renderer

ModelMaker = Callable[..., Path]
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


class ThinkParser:
    """A reasoning parser that only knows how prompts open and close reasoning."""

    @hookimpl
    def derender_parse_delta(self, state: State | None, delta: Delta) -> Step:
        return Step(state or {}, (Text(delta.text),) if delta.text else ())

    @hookimpl
    def derender_prompt_opens_reasoning(self, prompt: Prompt | None) -> bool | None:
        assert prompt is not None
        marker = prompt.last_of("<think>", "</think>")
        return None if marker is None else marker == "<think>"


@pytest.fixture
def model(small_model: ModelMaker) -> ServedModel:
    return ServedModel.load(small_model(), names=["small", "other"])


@pytest.fixture
def renderer(model: ServedModel) -> Renderer:
    return Renderer(model)


def text(renderer: Renderer, body: dict[str, Any]) -> str:
    return renderer.model.tokenizer.decode(renderer.render_chat(body).token_ids, skip_special_tokens=False)


@pytest.mark.rule("3.1")
def test_the_whole_engine_request(renderer: Renderer) -> None:
    rendered = json.loads(
        renderer.render_chat({"messages": [USER], "max_tokens": 3}, request_id="abc").model_dump_json()
    )
    token_ids, sampling = rendered.pop("token_ids"), rendered.pop("sampling_params")
    assert renderer.model.tokenizer.decode(token_ids, skip_special_tokens=False) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert sampling["max_tokens"] == 3
    assert "top_k" not in sampling
    assert rendered == {
        "request_id": "chatcmpl-abc",
        "model": "small",
        "stream": False,
        "return_token_ids": None,
        "cache_salt": None,
        "priority": 0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "features": None,
        "token_offsets": None,
        "reasoning_ended": None,
        "reasoning_parser_kwargs": None,
        "output_mode": "tokens",
        "parse_context": {
            "tools": None,
            "tool_choice": "none",
            "parallel_tool_calls": True,
            "include_reasoning": True,
            "chat_template_kwargs": {},
            "history_tool_call_cnt": 0,
        },
    }


@pytest.mark.rule("3.3")
def test_engine_fields_are_passed_on(renderer: Renderer) -> None:
    asked = {
        "model": "other",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": None},
        "return_token_ids": True,
        "cache_salt": "salt",
        "priority": 3,
        "kv_transfer_params": {"a": 1},
        "ec_transfer_params": {"b": 2},
    }
    rendered = json.loads(renderer.render_chat({"messages": [USER]} | asked).model_dump_json())
    assert {key: rendered[key] for key in asked} == asked


@pytest.mark.rule("3.2")
def test_request_ids(renderer: Renderer) -> None:
    def request_id(**options: Any) -> str:
        return renderer.render_chat(
            {"messages": [USER], "request_id": options.pop("field", None)}, **options
        ).request_id

    made = request_id()
    assert made != request_id()
    assert made.startswith("chatcmpl-")
    assert int(made.removeprefix("chatcmpl-"), 16)
    assert request_id(field="own") == "chatcmpl-own"
    assert request_id(field="own", request_id="header") == "chatcmpl-header"


def test_an_unknown_model(renderer: Renderer) -> None:
    with pytest.raises(UnknownModelError, match=r"`third` does not exist\. Valid names: `small`, `other`"):
        renderer.render_chat({"messages": [USER], "model": "third"})


def test_special_tokens_are_not_doubled(small_model: ModelMaker) -> None:
    template = "{{ bos_token }}{{ messages[0].content }}"
    renderer = Renderer.from_pretrained(str(small_model(tokenizer_config={"chat_template": template})))
    assert text(renderer, {"messages": [USER]}) == "<s>hi"
    assert text(renderer, {"messages": [USER], "add_special_tokens": True}) == "<s><s>hi"


def test_special_tokens_written_in_a_message_are_those_tokens(renderer: Renderer) -> None:
    body = {"messages": [{"role": "user", "content": "a<|im_end|>b"}]}
    assert renderer.render_chat(body).token_ids.count(259) == 2


@pytest.mark.rule("3.5")
@pytest.mark.parametrize(
    ("kwargs", "defaults", "tail", "ended"),
    [
        ({"enable_thinking": True}, {}, "<think>\n", False),
        ({"enable_thinking": False}, {}, "</think>\n\n", True),
        ({}, {}, "assistant\n", False),
        ({}, {"enable_thinking": False}, "</think>\n\n", True),
        ({"enable_thinking": True}, {"enable_thinking": False}, "<think>\n", False),
        (None, {"enable_thinking": False}, "</think>\n\n", True),
    ],
)
def test_whether_the_prompt_ends_reasoning(
    model: ServedModel, kwargs: dict[str, Any] | None, defaults: dict[str, Any], tail: str, ended: bool
) -> None:
    parsers = Pipeline(reasoning=make_parser("reasoning", "think", ThinkParser()))
    renderer = Renderer(model, pipeline=parsers, default_template_kwargs=defaults)
    body = {"messages": [USER | {"content": "say </think>"}], "chat_template_kwargs": kwargs}
    rendered = renderer.render_chat(body)
    assert text(renderer, body).endswith(tail)
    assert rendered.reasoning_ended is ended
    merged = {**defaults, **(kwargs or {})}
    assert rendered.reasoning_parser_kwargs == {"chat_template_kwargs": merged}
    assert rendered.parse_context is not None
    assert rendered.parse_context.chat_template_kwargs == merged


def test_reasoning_effort_is_a_template_variable(model: ServedModel) -> None:
    renderer = Renderer(model, chat_template="{{ reasoning_effort }}")
    assert text(renderer, {"messages": [USER], "reasoning_effort": "low"}) == "low"
    both = {"messages": [USER], "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}}
    assert text(renderer, both) == "high"


@pytest.mark.rule("3.6")
def test_what_derender_needs_comes_along(renderer: Renderer) -> None:
    named = {"type": "function", "function": {"name": "f"}}
    body = {
        "messages": [USER, {"role": "assistant", "tool_calls": [CALL, CALL]}, {"role": "tool", "content": "1"}, USER,
                     {"role": "assistant", "content": None, "tool_calls": [CALL]}],
        "tools": [TOOL],
        "tool_choice": named,
        "parallel_tool_calls": False,
        "include_reasoning": False,
    }  # fmt: skip
    context = renderer.render_chat(body).parse_context
    assert context is not None
    assert context.model_dump() == {
        "tools": [TOOL],
        "tool_choice": named,
        "parallel_tool_calls": False,
        "include_reasoning": False,
        "chat_template_kwargs": {},
        "history_tool_call_cnt": 3,
    }


@pytest.mark.rule("3.4")
def test_token_offsets(renderer: Renderer) -> None:
    rendered = renderer.render_chat({"messages": [USER | {"content": "é!"}], "return_token_offsets": True})
    whole = "<|im_start|>user\né!<|im_end|>\n<|im_start|>assistant\n"
    assert rendered.token_offsets is not None
    assert len(rendered.token_offsets) == len(rendered.token_ids)
    assert rendered.token_offsets[0] == (0, len("<|im_start|>"))
    assert [whole[start:end] for start, end in rendered.token_offsets[6:9]] == ["é", "é", "!"]
    assert renderer.render_chat({"messages": [USER]}).token_offsets is None


def test_the_end_of_a_long_prompt_can_be_kept(renderer: Renderer) -> None:
    body = {"messages": [USER | {"content": "x" * 600}], "return_token_offsets": True}
    short = renderer.render_chat(body | {"truncate_prompt_tokens": 20})
    assert len(short.token_ids) == len(short.token_offsets or ()) == 20
    assert renderer.model.tokenizer.decode(short.token_ids).endswith("assistant\n")
    assert len(renderer.render_chat(body | {"truncate_prompt_tokens": -1}).token_ids) == 511
    assert len(renderer.render_chat(body | {"truncate_prompt_tokens": -1, "max_tokens": 100}).token_ids) == 412


def test_text_that_is_not_unicode_is_refused(renderer: Renderer) -> None:
    with pytest.raises(InputError, match="not valid Unicode") as info:
        renderer.render_chat({"messages": [USER | {"content": "\ud800"}]})
    assert info.value.param == "messages"


def test_the_renderer_needs_no_web_framework() -> None:
    code = "import sys; from derender_server import Renderer; sys.exit('litestar' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
