"""Messages as templates get them, and how a final message is continued."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derender_core.errors import InputError, TemplateError
from derender_server.chat_template import ChatTemplates, ContentFormat
from derender_server.wire.requests import ChatCompletionRequest, ChatMessage, FunctionCall, HistoryToolCall

SHOW = "{% for m in messages %}{{ m | tojson }}{% endfor %}"
WALK = "{% for m in messages %}{% for p in m.content %}{{ p | tojson }}{% endfor %}{% endfor %}"
EITHER = (
    "{% for m in messages %}{% if m.content is string %}s:{{ m.content }}"
    "{% else %}{% for p in m.content %}p:{{ p.text }}{% endfor %}{% endif %}{% endfor %}"
)
KNOWS_NULL = "{% for m in messages %}{% if m.content is none %}null{% else %}<{{ m.content }}>{% endif %}{% endfor %}"
PARTS = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, {"type": "refusal", "refusal": "no"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q":"é"}'}}


def render(template: str, *messages: dict[str, Any], content_format: ContentFormat = "auto", **fields: Any) -> str:
    request = ChatCompletionRequest.model_validate({"messages": list(messages)} | fields)
    return ChatTemplates({"default": template}, content_format=content_format).render(request, {})


def refuse(template: str, *messages: dict[str, Any], **fields: Any) -> InputError:
    with pytest.raises(InputError) as info:
        render(template, *messages, **fields)
    return info.value


def test_content_takes_the_form_that_the_template_wants() -> None:
    text, parts = {"role": "user", "content": "a"}, {"role": "user", "content": PARTS}
    assert render("{{ messages[0].content }}", parts) == "a\nb\nno"
    assert render(WALK, text) == '{"type": "text", "text": "a"}'
    assert render(WALK, parts) == "".join(json.dumps({"type": "text", "text": part}) for part in ("a", "b", "no"))
    assert render(EITHER, text) == "s:a"
    assert render(EITHER, parts) == "p:ap:bp:no"


def test_the_operator_may_fix_the_form() -> None:
    text, parts = {"role": "user", "content": "a"}, {"role": "user", "content": PARTS[:1]}
    assert render(EITHER, text, content_format="openai") == "p:a"
    assert render(EITHER, parts, content_format="string") == "s:a"


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video_url", "file", "made_up"])
def test_parts_that_are_not_text_are_refused(kind: str) -> None:
    error = refuse(SHOW, {"role": "user", "content": "x"}, {"role": "user", "content": [PARTS[0], {"type": kind}]})
    assert error.param == "messages.1.content.1"
    assert f"a part of type '{kind}' cannot be rendered, only text can" in str(error)


def test_a_text_part_without_text_is_refused() -> None:
    error = refuse(SHOW, {"role": "user", "content": [{"type": "text"}]})
    assert error.param == "messages.0.content.0.text"


def test_null_fields_are_left_out_and_others_kept() -> None:
    message = {"role": "tool", "content": "ok", "name": None, "tool_call_id": "c1", "custom": {"a": 1}}
    assert json.loads(render(SHOW, message)) == {
        "role": "tool",
        "content": "ok",
        "tool_call_id": "c1",
        "custom": {"a": 1},
    }


def test_null_content_is_empty_unless_the_template_tests_for_it() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert json.loads(render(SHOW, call))["content"] == ""
    assert render(WALK, call) == ""
    assert render(KNOWS_NULL, call) == "null"
    assert render(KNOWS_NULL, call | {"content": ""}) == "null"
    assert render(KNOWS_NULL, call | {"content": "x"}) == "<x>"
    assert render(KNOWS_NULL, {"role": "assistant", "content": ""}) == "<>"
    assert render(KNOWS_NULL, {"role": "user", "content": None}) == "<>"


def test_developer_messages_are_system_messages_where_the_role_is_unknown() -> None:
    message = {"role": "developer", "content": "x"}
    assert render("{{ messages[0].role }}", message) == "system"
    assert render("{% if messages[0].role == 'developer' %}dev{% endif %}", message) == "dev"


@pytest.mark.parametrize("arguments", ['{"q":"é"}', {"q": "é"}])
def test_arguments_become_objects(arguments: object) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    source = "{% for c in messages[0].tool_calls %}{{ c.type }} {{ c.function.arguments.q }}{% endfor %}"
    assert render(source, message) == "function é"


@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    assert render("{{ messages[0].tool_calls | tojson }}", message) == (
        '[{"type": "function", "function": {"name": "f", "arguments": {}}}]'
    )


@pytest.mark.parametrize(
    ("arguments", "what"),
    [('{"a": ', "is not valid JSON"), ("[1]", "must be a JSON object, not list"), ("3", "not int"), ("[" * 9999, "")],
)
def test_bad_arguments_in_history_name_the_field(arguments: str, what: str) -> None:
    calls = [CALL, {"type": "function", "function": {"name": "f", "arguments": arguments}}]
    error = refuse(SHOW, {"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls})
    assert error.param == "messages.1.tool_calls.1.function.arguments"
    assert what in str(error)


def test_an_empty_list_of_calls_is_none() -> None:
    source = "{{ messages[0].tool_calls is defined }}"
    assert render(source, {"role": "assistant", "content": "x", "tool_calls": []}) == "False"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_is_offered_under_every_name(name: str) -> None:
    source = "{{ messages[0].reasoning }} {{ messages[0].reasoning_content }} {{ messages[0].thinking }}"
    assert render(source, {"role": "assistant", "content": "x", name: "why"}) == "why why why"


def test_requests_may_be_built_from_models() -> None:
    call = HistoryToolCall(function=FunctionCall(name="f", arguments='{"q": 1}'))
    request = ChatCompletionRequest(messages=[ChatMessage(role="assistant", tool_calls=[call])])
    text = ChatTemplates({"default": SHOW}).render(request, {})
    assert json.loads(text)["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": {"q": 1}}}]


def test_the_request_is_not_changed() -> None:
    body = {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a "}], "tool_calls": [CALL]}]}
    before = json.dumps(body)
    request = ChatCompletionRequest.model_validate(body | {"continue_final_message": True})
    templates = ChatTemplates({"default": "{% for p in messages[0].content %}{{ p.text }}{% endfor %}"})
    assert templates.render(request, {}) == templates.render(request, {}) == "a "
    assert json.dumps(body) == before


# -- continue_final_message --------------------------------------------------------------------------------------------

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
TRIMMED = TURNS.replace("m.content", "m.content | trim")
ASKED, BEGUN = {"role": "user", "content": "go"}, {"role": "assistant", "content": "The answer "}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (TURNS, "<user>go</user><assistant>The answer "),
        (TRIMMED, "<user>go</user><assistant>The answer"),
        (WALK.replace("p | tojson", "p.text") + "</end>", "goThe answer "),
    ],
)
def test_the_final_message_is_left_open(template: str, expected: str) -> None:
    assert render(template, ASKED, BEGUN, continue_final_message=True) == expected


def test_another_field_can_be_continued() -> None:
    source = "{% for m in messages %}[{{ m.reasoning_content }}]{{ m.content }}{% endfor %}"
    message = BEGUN | {"reasoning": "because"}
    assert render(source, message, continue_final_message="reasoning_content") == "[because"
    assert render(source, message, continue_final_message="reasoning") == "[because"


@pytest.mark.parametrize(
    ("template", "message", "what"),
    [
        ("fixed", BEGUN, "does not keep the text of the final message"),
        (TURNS.replace("m.content", "m.content | upper"), BEGUN, "does not keep the text of the final message"),
        (TURNS, {"role": "assistant", "content": None}, "the final message has no content to continue"),
        (WALK, {"role": "assistant", "content": []}, "the final message has no text part"),
    ],
)
def test_what_cannot_be_continued(template: str, message: dict[str, Any], what: str) -> None:
    error = refuse(template, message, continue_final_message=True)
    assert error.param == "continue_final_message"
    assert what in str(error)
    assert isinstance(error, TemplateError) is ("keep" in what)
