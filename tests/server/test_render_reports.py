"""Faults that users of servers like this one reported, as they would show here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core.inputs import ParseContext, Tool
from derender_core.message import fold_message
from derender_core.pipeline import Pipeline
from derender_core.registry import load_parser
from derender_server.model import ServedModel
from derender_server.renderer import Renderer

ModelMaker = Callable[..., Path]
ITERATES = (
    "{% for m in messages %}{% for c in m.tool_calls %}{% for key, value in c.function.arguments.items() %}"
    "<{{ key }}>{{ value }}</{{ key }}>{% endfor %}{% endfor %}{% endfor %}"
)
DUMPS = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
PRINTS = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor %}"
APPENDS = "{% for m in messages %}{% for c in m.tool_calls %}{{ '' + c.function.arguments }}{% endfor %}{% endfor %}"


def history(arguments: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": arguments}}
    return {
        "messages": [
            {"role": "user", "content": "Find Rome"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ]
    }


def text(renderer: Renderer, body: dict[str, Any]) -> str:
    return renderer.model.tokenizer.decode(renderer.render_chat(body).token_ids, skip_special_tokens=False)


def test_arguments_echoed_as_text_reach_a_template_that_iterates_over_them(small_model: ModelMaker) -> None:
    """QwenLM/Qwen3#1894: the template broke on the OpenAI form of a call."""
    renderer = Renderer(ServedModel.load(small_model()), chat_template=ITERATES)
    assert text(renderer, history('{"query": "Rome"}')) == "<query>Rome</query>"


def test_default_template_kwargs_are_used_and_the_requests_win(small_model: ModelMaker) -> None:
    """ai-dynamo/dynamo#11703: the option was accepted and never read, so parsers and prompt disagreed."""
    parsers = Pipeline(reasoning=load_parser("reasoning", "deepseek_v3"))
    renderer = Renderer(
        ServedModel.load(small_model()), pipeline=parsers, default_template_kwargs={"enable_thinking": False}
    )
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    rendered = renderer.render_chat(body)
    assert text(renderer, body).endswith("<think>\n\n</think>\n\n")
    assert rendered.reasoning_ended is True
    assert rendered.reasoning_parser_kwargs == {"chat_template_kwargs": {"enable_thinking": False}}
    body["chat_template_kwargs"] = {"enable_thinking": True}
    rendered = renderer.render_chat(body)
    assert text(renderer, body).endswith("<think>\n")
    assert rendered.reasoning_ended is False
    assert rendered.parse_context is not None
    assert rendered.parse_context.chat_template_kwargs == {"enable_thinking": True}


SPELLINGS = ['{"enabled": false, "b": null, "a": 1.0, "name": "Zoë <&>"}', '{"n": [1, {"deep": true}], "empty": {}}']


@pytest.mark.parametrize("template", [DUMPS, PRINTS, APPENDS])
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_call_is_rendered_again_as_the_model_wrote_it(small_model: ModelMaker, template: str, spelled: str) -> None:
    """vllm-project/vllm#45045: ``False`` for ``false``, other spacing and order gave other tokens in the next turn."""
    renderer = Renderer(ServedModel.load(small_model()), chat_template=template)
    assert text(renderer, history(spelled)) == spelled


@pytest.mark.real_tokenizer
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_output_parsed_and_rendered_again_has_the_same_tokens(
    real_tokenizer_dir: Callable[[str], Path], spelled: str
) -> None:
    """The same fault over the whole round: the model's ids, its message, and that message in the next prompt."""
    renderer = Renderer(ServedModel.load(real_tokenizer_dir("qwen3"), max_model_len=4096))
    output = f'<tool_call>\n{{"name": "search", "arguments": {spelled}}}\n</tool_call><|im_end|>'
    ids = renderer.model.tokenizer.encode(output)
    parsers = Pipeline(tool=load_parser("tool", "hermes"))
    message = fold_message(parsers.extract(output.removesuffix("<|im_end|>"), ParseContext(tools=(Tool("search"),))))
    (call,) = message.tool_calls
    prompt = renderer.render_chat(history(call.arguments)).token_ids
    at = next(at for at in range(len(prompt)) if prompt[at : at + len(ids)] == ids)
    assert renderer.model.tokenizer.decode(prompt[:at], skip_special_tokens=False).endswith("<|im_start|>assistant\n")


@pytest.mark.real_tokenizer
@pytest.mark.parametrize(
    ("tool", "reasoning", "kwargs", "ended"),
    [
        ("hermes", "qwen3", {"enable_thinking": False}, True),
        ("hermes", "qwen3", {}, False),
        (None, "deepseek_r1", {"enable_thinking": False}, True),
        ("hermes", None, {}, None),
    ],
)
def test_the_prompt_says_whether_reasoning_has_ended(
    real_tokenizer_dir: Callable[[str], Path],
    tool: str | None,
    reasoning: str | None,
    kwargs: dict[str, Any],
    ended: bool | None,
) -> None:
    """vllm-project/vllm#19839: with thinking switched off, the answer was taken for reasoning."""
    renderer = Renderer.from_pretrained(
        real_tokenizer_dir("qwen3"), tool_parser=tool, reasoning_parser=reasoning, max_model_len=4096
    )
    history_quotes = {"role": "user", "content": "What does </think> mean?"}
    rendered = renderer.render_chat({"messages": [history_quotes], "chat_template_kwargs": kwargs})
    assert rendered.reasoning_ended is ended
