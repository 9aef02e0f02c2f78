"""Prompts equal those of ``transformers``, token by token, on real models' templates and tokenizers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from derender_server.model import ServedModel
from derender_server.renderer import Renderer

pytestmark = pytest.mark.real_tokenizer
Body = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_bus",
            "description": "Où est le bus? <b>&</b> '“”'",
            "parameters": {
                "type": "object",
                "properties": {"line": {"type": "integer"}, "städte": {"type": "array", "items": {"type": "string"}}},
                "required": ["line"],
            },
            "strict": False,
        },
    },
    {"function": {"name": "now", "parameters": {"properties": {}, "type": "object"}}, "type": "function"},
]
SYSTEM = {"role": "system", "content": "Answer briefly.\n\nPlease — kurz & bündig."}
ASK = {"role": "user", "content": "Wann fährt Linie 7 nach Köln? 几点 🚌"}
ANSWER = {"role": "assistant", "content": "At nine.", "reasoning_content": "Line 7 is hourly.\n"}
THANKS = {"role": "user", "content": "  Thanks! <think>no</think> "}


def call(name: str, arguments: object, call_id: str = "call_1") -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


LINE = {"line": 7, "städte": ["Köln", "Bonn"], "exact": True, "at": None, "ratio": 1.5}
CALLS = {"role": "assistant", "content": "", "tool_calls": [call("find_bus", LINE), call("now", {}, "call_2")]}
SPOKEN_CALL = {"role": "assistant", "content": "Let me look.", "tool_calls": [call("find_bus", LINE)]}
RESULTS = [
    {"role": "tool", "tool_call_id": "call_1", "content": '{"departs": "9:00", "gleis": "é"}'},
    {"role": "tool", "tool_call_id": "call_2", "content": "8:41"},
]
BEGUN = {"role": "assistant", "content": "The bus leaves at "}

QWEN_CASES: dict[str, Body] = {
    "user": {"messages": [ASK]},
    "system": {"messages": [SYSTEM, ASK]},
    "multi_turn": {"messages": [SYSTEM, ASK, ANSWER, THANKS]},
    "ends_with_assistant": {"messages": [ASK, ANSWER], "add_generation_prompt": False},
    "thinking_off": {"messages": [ASK], "chat_template_kwargs": {"enable_thinking": False}},
    "thinking_on": {"messages": [ASK], "chat_template_kwargs": {"enable_thinking": True}},
    "tools": {"messages": [SYSTEM, ASK], "tools": TOOLS},
    "calls": {"messages": [ASK, CALLS, *RESULTS], "tools": TOOLS},
    "spoken_call": {"messages": [ASK, SPOKEN_CALL, RESULTS[0], ANSWER, THANKS], "tools": TOOLS},
    "calls_with_reasoning": {"messages": [ASK, CALLS | {"reasoning_content": "Look it up."}, *RESULTS]},
    "continued": {"messages": [ASK, BEGUN], "continue_final_message": True},
    "continued_trimmed": {"messages": [ASK, BEGUN | {"content": "So:\n\n"}], "continue_final_message": True},
    "inline_thoughts": {"messages": [ASK, ANSWER | {"content": "<think>\nx\n</think>\n\nAt nine."}, THANKS]},
    "no_generation_prompt": {"messages": [ASK], "add_generation_prompt": False},
}
PLAIN_CASES = ("user", "system", "multi_turn", "continued", "no_generation_prompt", "ends_with_assistant")


def with_arguments(body: Body, convert: Callable[[Any], Any]) -> Body:
    """The request with the arguments of all calls in its history converted."""
    body = copy.deepcopy(body)
    for message in body["messages"]:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = convert(one["function"]["arguments"])
    return body


@pytest.fixture(scope="module")
def pair(real_tokenizer_dir: Callable[[str], Path]) -> Callable[[str], tuple[Renderer, Any]]:
    @cache
    def make(name: str) -> tuple[Renderer, Any]:
        directory = real_tokenizer_dir(name)
        return Renderer(ServedModel.load(directory, max_model_len=32768)), AutoTokenizer.from_pretrained(directory)

    return make


Pair = Callable[[str], tuple[Renderer, Any]]


def expected_ids(reference: Any, body: Body) -> list[int]:
    """What ``transformers`` makes of the same request."""
    fields = {"add_generation_prompt": not body.get("continue_final_message")} | body
    kwargs = fields.pop("chat_template_kwargs", {})
    ids = reference.apply_chat_template(fields.pop("messages"), return_dict=False, **fields, **kwargs)
    return list(ids)


@pytest.mark.parametrize("name", QWEN_CASES)
def test_qwen3(pair: Pair, name: str) -> None:
    renderer, reference = pair("qwen3")
    body = QWEN_CASES[name]
    sent = with_arguments(body, lambda arguments: json.dumps(arguments, ensure_ascii=False))
    assert renderer.render_chat(sent).token_ids == expected_ids(reference, body)


@pytest.mark.parametrize("name", PLAIN_CASES)
@pytest.mark.parametrize("model", ["deepseek_v3", "llama3_1"])
def test_plain_chats(pair: Pair, model: str, name: str) -> None:
    renderer, reference = pair(model)
    body = QWEN_CASES[name]
    assert renderer.render_chat(body).token_ids == expected_ids(reference, body)


@pytest.mark.parametrize(
    "messages",
    [
        [ASK, {**CALLS, "content": None}, *RESULTS],
        [SYSTEM, ASK, {**CALLS, "content": None}, *RESULTS, ANSWER, THANKS],
    ],
)
def test_deepseek_v3_calls(pair: Pair, messages: list[Body]) -> None:
    """Its template appends arguments as text and finds calls by null content, which ``apply_chat_template`` drops."""
    renderer, reference = pair("deepseek_v3")
    spelled = '{"line":7, "städte":["Köln"]}'
    body = with_arguments({"messages": messages}, lambda arguments: spelled if arguments else "{}")
    (text,), _ = render_jinja_template(
        [body["messages"]],
        chat_template=reference.chat_template,
        add_generation_prompt=True,
        **reference.special_tokens_map,
    )
    assert spelled in text
    rendered = renderer.render_chat(body | {"tools": TOOLS}).token_ids
    assert rendered == reference(text, add_special_tokens=False).input_ids
    empty = copy.deepcopy(body)
    for message in empty["messages"]:
        if message["content"] is None:
            message["content"] = ""
    assert renderer.render_chat(empty).token_ids == rendered


@pytest.mark.parametrize(
    "content", ["Bonjour é", [{"type": "text", "text": "Bonjour"}, {"type": "text", "text": " é\n"}]]
)
def test_gemma3_takes_text_and_parts(pair: Pair, content: object) -> None:
    renderer, reference = pair("gemma3")
    body: Body = {"messages": [SYSTEM, {"role": "user", "content": content}, BEGUN, ASK]}
    assert renderer.render_chat(body).token_ids == expected_ids(reference, body)


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_a_named_list_of_templates(real_tokenizer_dir: Callable[[str], Path], tmp_path: Path, tools: Any) -> None:
    source = real_tokenizer_dir("qwen3")
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    named = {
        "default": "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        "tool_use": "{% for t in tools %}{{ t | tojson(indent=2) }}\n{% endfor %}{{ messages | tojson }}",
    }
    config["chat_template"] = [{"name": name, "template": text} for name, text in named.items()]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "tokenizer.json").symlink_to(source / "tokenizer.json")
    body: Body = {"messages": [ASK]} | ({"tools": tools} if tools else {})
    rendered = Renderer.from_pretrained(str(tmp_path), max_model_len=4096).render_chat(body).token_ids
    assert rendered == expected_ids(AutoTokenizer.from_pretrained(tmp_path), body)


@pytest.mark.parametrize("model", ["qwen3", "deepseek_v3", "llama3_1", "gemma3", "llama2"])
def test_completion_prompts(pair: Pair, model: str) -> None:
    renderer, reference = pair(model)
    # transformers 5 rebuilds Llama 2's tokenizer without the blank that its tokenizer.json puts before a blank
    blank = () if model == "llama2" else (" leading",)
    for prompt in ("Hello, Wörld!\n\n  几点 🚌", "", *blank):
        rendered = renderer.tokenize({"prompt": prompt}).tokens
        assert rendered == reference(prompt).input_ids
        assert renderer.tokenize({"prompt": prompt, "add_special_tokens": False}).tokens == (
            reference(prompt, add_special_tokens=False).input_ids
        )
