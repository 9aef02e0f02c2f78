"""Text completion requests to engine requests, and the tokenizer services."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core.errors import InputError, TokenIdError
from derender_server.limits import Limits
from derender_server.model import UnknownModelError
from derender_server.renderer import Renderer

ModelMaker = Callable[..., Path]
BOS = 256
USER = {"role": "user", "content": "hi"}


@pytest.fixture
def renderer(small_model: ModelMaker) -> Renderer:
    return Renderer.from_pretrained(str(small_model()))


def ids(renderer: Renderer, text: str) -> list[int]:
    return renderer.model.tokenizer.encode(text)


def rendered_ids(renderer: Renderer, prompt: object, **fields: Any) -> list[list[int]]:
    return [one.token_ids for one in renderer.render_completion({"prompt": prompt} | fields)]


@pytest.mark.rule("1.2")
def test_the_four_forms_of_a_prompt(renderer: Renderer) -> None:
    assert rendered_ids(renderer, "ab") == [[BOS, *ids(renderer, "ab")]]
    assert rendered_ids(renderer, ["ab", "c"]) == [[BOS, *ids(renderer, "ab")], [BOS, *ids(renderer, "c")]]
    assert rendered_ids(renderer, [5, 6]) == [[5, 6]]
    assert rendered_ids(renderer, [[5], [6, 7]]) == [[5], [6, 7]]
    assert rendered_ids(renderer, "ab", add_special_tokens=False) == [ids(renderer, "ab")]


@pytest.mark.rule("3.2")
def test_ids_of_several_prompts_are_numbered(renderer: Renderer) -> None:
    many = renderer.render_completion({"prompt": ["a", "b"]}, request_id="x")
    assert [one.request_id for one in many] == ["cmpl-x-0", "cmpl-x-1"]
    (one,) = renderer.render_completion({"prompt": ["a"], "request_id": "y"})
    assert one.request_id == "cmpl-y"
    made = [one.request_id for one in renderer.render_completion({"prompt": ["a", "b"]})]
    assert made[0].removesuffix("-0") == made[1].removesuffix("-1")


def test_completions_have_no_parsers(renderer: Renderer) -> None:
    (one,) = renderer.render_completion({"prompt": "a"})
    assert (one.reasoning_ended, one.reasoning_parser_kwargs, one.parse_context) == (None, None, None)


def test_prompts_are_checked(renderer: Renderer) -> None:
    with pytest.raises(TokenIdError, match="token id 264 is out of range") as info:
        renderer.render_completion({"prompt": [[1], [2, 264]]})
    assert info.value.param == "prompt.1.1"
    with pytest.raises(InputError, match="prompt has no tokens") as empty:
        renderer.render_completion({"prompt": "", "add_special_tokens": False})
    assert empty.value.param == "prompt"
    with pytest.raises(InputError, match="the prompt has 600 tokens") as long:
        renderer.render_completion({"prompt": ["a", "x" * 599]})
    assert long.value.param == "prompt.1"
    with pytest.raises(UnknownModelError):
        renderer.render_completion({"prompt": "a", "model": "none"})


def test_the_number_of_choices_is_limited(renderer: Renderer) -> None:
    strict = Renderer(renderer.model, limits=Limits(max_model_len=512, vocab_size=264, max_choices=5))
    with pytest.raises(InputError, match="--max-choices") as info:
        strict.render_completion({"prompt": ["a", "b"], "n": 3})
    assert info.value.param == "prompt"


def test_offsets_and_truncation(renderer: Renderer) -> None:
    (one,) = renderer.render_completion({"prompt": "abc", "return_token_offsets": True, "truncate_prompt_tokens": 2})
    assert one.token_ids == ids(renderer, "bc")
    assert one.token_offsets == [(1, 2), (2, 3)]
    (given,) = renderer.render_completion({"prompt": [1, 2, 3], "return_token_offsets": True})
    assert given.token_offsets is None
    assert rendered_ids(renderer, [7] * 600, truncate_prompt_tokens=-1, max_tokens=12) == [[7] * 500]


# -- tokenize and detokenize ---------------------------------------------------------------------------------------


def test_tokenize_a_prompt(renderer: Renderer) -> None:
    answer = renderer.tokenize({"prompt": "é", "return_token_strs": True})
    assert answer.model_dump() == {
        "count": 3,
        "max_model_len": 512,
        "tokens": [BOS, *ids(renderer, "é")],
        "token_strs": ["<s>", "\ufffd", "\ufffd"],
    }
    assert renderer.tokenize({"prompt": "a", "add_special_tokens": False}).tokens == ids(renderer, "a")
    assert renderer.tokenize({"prompt": "x" * 999}).count == 1000
    assert renderer.tokenize({"prompt": ""}).count == 1


def test_tokenize_messages_as_they_are_rendered(renderer: Renderer) -> None:
    body: dict[str, Any] = {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}}
    answer = renderer.tokenize(body)
    assert answer.tokens == renderer.render_chat(body).token_ids
    assert answer.token_strs is None
    assert renderer.tokenize(body | {"add_special_tokens": True}).tokens == [BOS, *answer.tokens]
    assert renderer.tokenize(body | {"add_generation_prompt": False}).count < answer.count


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": [USER]}])
def test_tokenize_takes_one_thing(renderer: Renderer, body: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="either prompt or messages"):
        renderer.tokenize(body)


def test_detokenize(renderer: Renderer) -> None:
    tokens = [BOS, *ids(renderer, "é<think>x")]
    assert renderer.detokenize({"tokens": tokens}).prompt == "<s>é<think>x"
    assert renderer.detokenize({"tokens": []}).prompt == ""
    with pytest.raises(TokenIdError) as info:
        renderer.detokenize({"tokens": [1, 264]})
    assert info.value.param == "tokens.1"
    with pytest.raises(UnknownModelError):
        renderer.detokenize({"tokens": [1], "model": "none"})
