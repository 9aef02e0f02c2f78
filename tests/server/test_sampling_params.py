"""Requests to complete sampling parameters."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from derender_core.errors import InputError, TokenIdError
from derender_core.events import Text
from derender_core.hookspecs import State, Step, hookimpl
from derender_core.inputs import Delta, Tool
from derender_core.pipeline import Pipeline
from derender_core.registry import make_parser
from derender_server.limits import Limits
from derender_server.model import ServedModel
from derender_server.renderer import Renderer

ModelMaker = Callable[..., Path]
NEUTRAL = {
    "n": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "seed": None,
    "stop": [],
    "stop_token_ids": [],
    "bad_words": [],
    "max_tokens": 16,
    "min_tokens": 0,
    "logprobs": None,
    "prompt_logprobs": None,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "ignore_eos": False,
    "logit_bias": None,
    "allowed_token_ids": None,
    "structured_outputs": None,
    "extra_args": None,
}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}},
    {"type": "function", "function": {"name": "now"}},
]


class TagParser:
    """A tool parser that only knows a grammar and a special token."""

    @hookimpl
    def derender_parse_delta(self, state: State | None, delta: Delta) -> Step:
        return Step(state or {}, (Text(delta.text),) if delta.text else ())

    @hookimpl
    def derender_special_tokens(self) -> tuple[str, ...]:
        return ("<|im_start|>",)

    @hookimpl
    def derender_structural_tag(self, tools: Sequence[Tool], tool_choice: str) -> Mapping[str, Any]:
        return {"type": "any", "names": [tool.name for tool in tools], "choice": tool_choice}


@pytest.fixture
def renderer(small_model: ModelMaker) -> Renderer:
    return Renderer.from_pretrained(str(small_model()))


def tagged(model: ServedModel) -> Renderer:
    return Renderer(model, pipeline=Pipeline(make_parser("tool", "tags", TagParser())))


def chat(renderer: Renderer, **fields: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": "hi"}]} | fields
    return json.loads(renderer.render_chat(body).model_dump_json())["sampling_params"]  # type: ignore[no-any-return]


def complete(renderer: Renderer, **fields: Any) -> dict[str, Any]:
    (rendered,) = renderer.render_completion({"prompt": "hi"} | fields)
    return json.loads(rendered.model_dump_json())["sampling_params"]  # type: ignore[no-any-return]


def refused(call: Callable[..., object], renderer: Renderer, **fields: Any) -> InputError:
    with pytest.raises(InputError) as info:
        call(renderer, **fields)
    return info.value


@pytest.mark.rule("3.7")
def test_neutral_values_are_complete(renderer: Renderer) -> None:
    assert complete(renderer) == NEUTRAL


@pytest.mark.rule("3.8")
def test_the_model_gives_defaults_and_the_request_wins(small_model: ModelMaker) -> None:
    defaults = {
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.1,
        "repetition_penalty": 1.05,
        "max_new_tokens": 100,
        "do_sample": True,
        "transformers_version": "4.51.0",
    }
    renderer = Renderer.from_pretrained(str(small_model(generation_config=defaults)))
    named = {key: defaults[key] for key in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
    assert complete(renderer) == NEUTRAL | named
    assert chat(renderer)["max_tokens"] == 100
    asked = {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1, "max_tokens": 200}
    assert chat(renderer, **asked) == NEUTRAL | asked


def test_odd_values_in_generation_config_are_ignored(small_model: ModelMaker) -> None:
    odd = {"temperature": None, "top_p": "0.9", "top_k": True, "max_new_tokens": -1}
    assert complete(Renderer.from_pretrained(str(small_model(generation_config=odd)))) == NEUTRAL


@pytest.mark.rule("3.7")
def test_request_fields_are_passed_on(renderer: Renderer) -> None:
    asked = {
        "n": 3,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "seed": 7,
        "stop_token_ids": [1, 2],
        "bad_words": ["no"],
        "min_tokens": 2,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "ignore_eos": True,
        "logit_bias": {"3": 1.5},
        "allowed_token_ids": [3, 4],
        "prompt_logprobs": 1,
    }
    expected = NEUTRAL | asked | {"stop": ["END"], "extra_args": {"a": 1}}
    assert complete(renderer, **asked, stop="END", vllm_xargs={"a": 1}) == expected
    assert chat(renderer, **asked, stop=["END"], vllm_xargs={"a": 1}, max_tokens=16) == expected


@pytest.mark.rule("3.12")
def test_max_tokens_of_a_chat_fills_the_context(renderer: Renderer) -> None:
    rendered = renderer.render_chat({"messages": [{"role": "user", "content": "hi"}]})
    assert len(rendered.token_ids) + rendered.sampling_params.max_tokens == 512
    assert chat(renderer, max_tokens=5)["max_tokens"] == 5
    assert chat(renderer, max_tokens=5, max_completion_tokens=7)["max_tokens"] == 7


@pytest.mark.rule("3.12")
def test_max_tokens_of_a_completion(renderer: Renderer) -> None:
    assert complete(renderer, prompt=[65] * 500)["max_tokens"] == 12
    assert complete(renderer, prompt=[65] * 500, max_tokens=12)["max_tokens"] == 12
    assert complete(renderer, max_tokens=0, echo=True)["max_tokens"] == 1
    assert "max_tokens must be at least 1" in str(refused(complete, renderer, max_tokens=0))


@pytest.mark.rule("3.13")
def test_a_prompt_without_room_states_both_lengths(renderer: Renderer) -> None:
    error = refused(complete, renderer, prompt=[65] * 512)
    assert "the prompt has 512 tokens, and the model's context length is 512 tokens" in str(error)
    assert error.param == "prompt"
    error = refused(chat, renderer, messages=[{"role": "user", "content": "x" * 600}])
    assert "context length is 512 tokens" in str(error)
    assert error.param == "messages"


def test_an_output_without_room_states_all_lengths(renderer: Renderer) -> None:
    error = refused(complete, renderer, prompt=[65] * 500, max_tokens=13)
    assert str(error) == (
        "the model's context length is 512 tokens; the prompt has 500 and max_tokens asks for 13 more. "
        "Lower max_tokens to at most 12, or shorten the prompt"
    )
    assert refused(chat, renderer, max_completion_tokens=600).param == "max_completion_tokens"


@pytest.mark.rule("3.9")
def test_logprobs(renderer: Renderer) -> None:
    assert chat(renderer, logprobs=True, top_logprobs=5)["logprobs"] == 5
    assert chat(renderer, logprobs=True)["logprobs"] == 0
    assert chat(renderer, logprobs=False)["logprobs"] is None
    assert complete(renderer, logprobs=3)["logprobs"] == 3
    assert complete(renderer, logprobs=3, echo=True)["prompt_logprobs"] == 3
    assert "top_logprobs needs logprobs: true" in str(refused(chat, renderer, top_logprobs=2))


def test_logprobs_are_limited(renderer: Renderer) -> None:
    error = refused(chat, renderer, logprobs=True, top_logprobs=21)
    assert (error.param, str(error)) == ("top_logprobs", "top_logprobs is 21; at most 20 (--max-logprobs) are allowed")
    assert refused(complete, renderer, logprobs=21).param == "logprobs"
    assert refused(complete, renderer, prompt_logprobs=-1).param == "prompt_logprobs"
    assert refused(complete, renderer, prompt_logprobs=1, stream=True).param == "prompt_logprobs"
    free = Renderer(renderer.model, limits=Limits(max_model_len=512, vocab_size=264, max_logprobs=-1))
    assert complete(free, logprobs=-1)["logprobs"] == -1


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"stop_token_ids": [264]}, "stop_token_ids.0"), ({"allowed_token_ids": [1, 999]}, "allowed_token_ids.1")],
)
def test_token_ids_must_be_the_models(renderer: Renderer, fields: dict[str, Any], param: str) -> None:
    error = refused(complete, renderer, **fields)
    assert isinstance(error, TokenIdError)
    assert error.param == param
    assert isinstance(refused(complete, renderer, logit_bias={"264": 1}), TokenIdError)


def test_min_tokens_above_max_tokens(renderer: Renderer) -> None:
    assert refused(complete, renderer, min_tokens=17).param == "min_tokens"
    assert refused(chat, renderer, min_tokens=9, max_completion_tokens=8).param == "min_tokens"


# -- special tokens ------------------------------------------------------------------------------------------------


@pytest.mark.rule("3.10")
def test_parsers_that_need_special_tokens_get_them(renderer: Renderer) -> None:
    parsing = tagged(renderer.model)
    assert chat(parsing, tools=TOOLS)["skip_special_tokens"] is False
    assert chat(parsing)["skip_special_tokens"] is True  # without tools the tool parser does not run
    assert complete(parsing)["skip_special_tokens"] is True


# -- structured outputs --------------------------------------------------------------------------------------------

SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": WEATHER}}


@pytest.mark.rule("3.11")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": SCHEMA_FORMAT}, {"json": WEATHER}),
        ({"structured_outputs": {"json": WEATHER}}, {"json": WEATHER}),
        ({"structured_outputs": {"json": json.dumps(WEATHER)}}, {"json": WEATHER}),
        ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"choice": ["a", "b"]}),
        ({"structured_outputs": {"grammar": "root ::= x", "whitespace_pattern": " "}},
         {"grammar": "root ::= x", "whitespace_pattern": " "}),
    ],
)  # fmt: skip
def test_what_the_request_asks_for(renderer: Renderer, fields: dict[str, Any], expected: object) -> None:
    assert chat(renderer, **fields)["structured_outputs"] == expected
    assert complete(renderer, **fields)["structured_outputs"] == expected


def test_a_structural_tag_as_response_format_is_json_text(renderer: Renderer) -> None:
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": True}}
    constraint = chat(renderer, response_format=tag)["structured_outputs"]
    assert json.loads(constraint["structural_tag"]) == tag


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json": WEATHER, "regex": "a"}}, "structured_outputs"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ],
)
def test_constraints_that_make_no_sense(renderer: Renderer, fields: dict[str, Any], param: str) -> None:
    assert refused(chat, renderer, **fields).param == param


@pytest.mark.rule("3.11")
def test_forced_calls_without_a_grammar_are_json(renderer: Renderer) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    assert chat(renderer, tools=TOOLS, tool_choice=named)["structured_outputs"] == {"json": WEATHER}
    named = {"type": "function", "function": {"name": "now"}}
    assert chat(renderer, tools=TOOLS, tool_choice=named)["structured_outputs"] == {"json": {"type": "object"}}
    required = chat(renderer, tools=TOOLS, tool_choice="required")["structured_outputs"]
    branches = [
        {"properties": {"name": {"type": "string", "enum": ["weather"]}, "parameters": WEATHER},
         "required": ["name", "parameters"]},
        {"properties": {"name": {"type": "string", "enum": ["now"]}, "parameters": {"type": "object"}},
         "required": ["name", "parameters"]},
    ]  # fmt: skip
    items = {"type": "object", "anyOf": branches}
    assert required == {"json": {"type": "array", "minItems": 1, "items": items}}
    single = chat(renderer, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)["structured_outputs"]
    assert single["json"]["maxItems"] == 1


def test_definitions_move_to_the_root_of_the_schema(renderer: Renderer) -> None:
    def tool(name: str, definition: dict[str, Any]) -> dict[str, Any]:
        parameters = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": definition}}
        return {"type": "function", "function": {"name": name, "parameters": parameters}}

    same = [tool("f", {"type": "string"}), tool("g", {"type": "string"})]
    schema = chat(renderer, tools=same, tool_choice="required")["structured_outputs"]["json"]
    assert schema["$defs"] == {"A": {"type": "string"}}
    assert "$defs" not in json.dumps(schema["items"]).replace('"#/$defs/A"', "")
    other = [tool("f", {"type": "string"}), tool("g", {"type": "integer"})]
    assert refused(chat, renderer, tools=other, tool_choice="required").param == "tools.1.function.parameters.$defs.A"


@pytest.mark.rule("3.11")
@pytest.mark.parametrize(
    ("choice", "seen"),
    [("required", "required"), ({"type": "function", "function": {"name": "now"}}, "function:now"), ("auto", "auto")],
)
def test_the_parsers_grammar_is_used(renderer: Renderer, choice: object, seen: str) -> None:
    constraint = chat(tagged(renderer.model), tools=TOOLS, tool_choice=choice)["structured_outputs"]
    assert json.loads(constraint["structural_tag"]) == {
        "type": "structural_tag",
        "format": {"type": "any", "names": ["weather", "now"], "choice": seen},
    }


def test_free_choice_is_constrained_only_for_strict_tools(renderer: Renderer) -> None:
    parsing = tagged(renderer.model)
    assert chat(parsing, tools=TOOLS[1:])["structured_outputs"] is None
    assert chat(parsing, tools=TOOLS, tool_choice="none")["structured_outputs"] is None
    assert chat(parsing, tools=TOOLS, response_format=SCHEMA_FORMAT)["structured_outputs"] == {"json": WEATHER}


def test_free_choice_is_not_constrained_where_its_calls_stay_text(renderer: Renderer) -> None:
    parsing = Renderer(renderer.model, pipeline=tagged(renderer.model).pipeline, enable_auto_tool_choice=False)
    assert chat(parsing, tools=TOOLS)["structured_outputs"] is None
    assert chat(parsing, tools=TOOLS, tool_choice="required")["structured_outputs"] is not None


def test_a_forced_call_wins_over_the_response_format(renderer: Renderer, caplog: pytest.LogCaptureFixture) -> None:
    named = {"type": "function", "function": {"name": "now"}}
    with caplog.at_level(logging.INFO):
        constraint = chat(renderer, tools=TOOLS, tool_choice=named, response_format=SCHEMA_FORMAT)
    assert constraint["structured_outputs"] == {"json": {"type": "object"}}
    assert "forced tool choice replaces the structured output" in caplog.text
