"""Where a model's chat templates are found, and which one a request gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core.errors import InputError, TemplateError
from derender_server.chat_template import ChatTemplates, load_templates, special_token_variables
from derender_server.model import ModelLoadError
from derender_server.wire.requests import ChatCompletionRequest

ModelMaker = Callable[..., Path]
NAMED = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
TOOL = {"type": "function", "function": {"name": "f"}}


def request(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate({"messages": [{"role": "user", "content": "hi"}]} | fields)


def test_one_template_in_the_tokenizer_config(tmp_path: Path) -> None:
    assert load_templates(tmp_path, {"chat_template": "a"}) == {"default": "a"}


def test_a_named_list(tmp_path: Path) -> None:
    assert load_templates(tmp_path, {"chat_template": NAMED}) == {"default": "plain", "tool_use": "tools"}


def test_files_win_over_the_tokenizer_config(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "json"}), encoding="utf-8")
    assert load_templates(tmp_path, {}) == {"default": "json"}
    assert load_templates(tmp_path, {"chat_template": NAMED})["default"] == "plain"
    (tmp_path / "chat_template.jinja").write_text("jinja é", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("rag", encoding="utf-8")
    assert load_templates(tmp_path, {"chat_template": NAMED}) == {
        "default": "jinja é",
        "tool_use": "tools",
        "rag": "rag",
    }


def test_the_operators_template_replaces_all(tmp_path: Path) -> None:
    path = tmp_path / "own.jinja"
    path.write_text("own", encoding="utf-8")
    config = {"chat_template": NAMED}
    assert load_templates(tmp_path, config, str(path)) == {"default": "own"}
    assert load_templates(tmp_path, config, "{{ messages }}") == {"default": "{{ messages }}"}
    assert load_templates(tmp_path, config, "tool_use") == {"default": "tools"}
    with pytest.raises(ModelLoadError, match="--chat-template 'nowhere' is neither a file nor the text of a template"):
        load_templates(tmp_path, config, "nowhere")


def test_a_template_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelLoadError, match=r"chat_template\.jinja"):
        load_templates(tmp_path, {})


def test_tools_select_tool_use() -> None:
    templates = ChatTemplates({"default": "plain", "tool_use": "tools"})
    assert templates.render(request(), {}) == "plain"
    assert templates.render(request(tools=[]), {}) == "plain"
    assert templates.render(request(tools=[TOOL]), {}) == "tools"
    assert ChatTemplates({"default": "plain"}).render(request(tools=[TOOL]), {}) == "plain"


def test_no_template_and_no_default() -> None:
    with pytest.raises(TemplateError, match="the model has no chat template; start the server with --chat-template"):
        ChatTemplates({}).render(request(), {})
    with pytest.raises(TemplateError, match="chat templates rag, tool_use, but none is the default"):
        ChatTemplates({"rag": "", "tool_use": ""}).render(request(), {})


def test_an_invalid_template_fails_at_start() -> None:
    with pytest.raises(TemplateError, match="not a valid jinja2 template"):
        ChatTemplates({"default": "{% for %}"})


@pytest.mark.rule("8.8")
def test_a_requests_own_template_needs_trust() -> None:
    own = request(chat_template="own {{ messages[0].content }}")
    with pytest.raises(InputError, match="--trust-request-chat-template") as info:
        ChatTemplates({"default": "plain"}).render(own, {})
    assert info.value.param == "chat_template"
    assert ChatTemplates({"default": "plain"}, trust_requests=True).render(own, {}) == "own hi"
    with pytest.raises(TemplateError, match="not a valid jinja2 template"):
        ChatTemplates({}, trust_requests=True).render(request(chat_template="{% for %}"), {})


def test_variables_of_the_template() -> None:
    source = "{{ bos_token }}|{{ tools | tojson }}|{{ documents | tojson }}|{{ add_generation_prompt }}|{{ mood }}"
    templates = ChatTemplates({"default": source}, special_tokens={"bos_token": "<s>"})
    asked = request(tools=[TOOL], documents=[{"title": "t"}], add_generation_prompt=False)
    assert templates.render(asked, {"mood": "calm"}) == f'<s>|[{json.dumps(TOOL)}]|[{{"title": "t"}}]|False|calm'
    assert templates.render(request(), {"bos_token": "<b>"}) == "<b>|null|null|True|"


def test_tools_reach_the_template_as_they_were_sent() -> None:
    tool = {"function": {"strict": None, "name": "f", "x": 1}, "type": "function"}
    assert ChatTemplates({"default": "{{ tools[0] | tojson }}"}).render(request(tools=[tool]), {}) == json.dumps(tool)


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "chat_template", "tokenize"])
def test_template_kwargs_cannot_replace_fields_of_the_request(name: str) -> None:
    with pytest.raises(InputError, match=f"set the request's own field '{name}'") as info:
        ChatTemplates({"default": ""}).render(request(), {name: 1})
    assert info.value.param == f"chat_template_kwargs.{name}"


def test_special_tokens_in_each_of_their_spellings() -> None:
    config = {
        "bos_token": {"__type": "AddedToken", "content": "<s>"},
        "eos_token": "</s>",
        "pad_token": None,
        "extra_special_tokens": {"image_token": "<img>"},
        "add_bos_token": True,
        "chat_template": "x",
    }
    assert special_token_variables(config) == {"image_token": "<img>", "bos_token": "<s>", "eos_token": "</s>"}
