"""`/parse`: the parsers on text that is already decoded."""

from __future__ import annotations

import pytest

from derender_core.errors import InputError

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def parse(t, text, **more):
    return t.derenderer.parse({"text": text, "chat_request": t.request(), **more})


@pytest.mark.rule("1.7")
def test_a_text_gives_the_message_of_its_ids(talk):
    t = talk()
    text = f"<think>\nhmm\n</think>\n\nLet me look.\n{CALL}"
    parsed = parse(t, text, request_id="chatcmpl-1")
    choice = t.chat(f"{text}<|im_end|>")["choices"][0]
    assert parsed == {"message": choice["message"], "finish_reason": choice["finish_reason"]}
    assert parsed["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("hmm</think>So.", True, ("So.", "hmm")),
        ("So.", True, (None, "So.")),
        ("So.", False, ("So.", None)),
        ("<think>hmm</think>So.", False, ("So.", "hmm")),
        ("<think>hmm</think>So.", None, ("So.", "hmm")),
    ],
)
def test_reasoning_may_have_been_opened_before(talk, text, opened, expected):
    message = parse(talk(), text, reasoning_open=opened)["message"]
    assert (message["content"], message["reasoning"]) == expected


def test_without_word_of_it_the_parser_decides_as_for_ids_without_a_prompt(talk):
    t = talk()
    response = {"choices": [{"token_ids": t.ids("So.")}]}
    body = t.derenderer.derender_chat({"generate_response": response, "chat_request": t.request()})
    assert parse(t, "So.")["message"] == body["choices"][0]["message"]


def test_a_call_that_was_cut_is_no_call(talk):
    parsed = parse(talk(), CALL[:-20], finish_reason="length")
    assert "tool_calls" not in parsed["message"]
    assert parsed["finish_reason"] == "length"


def test_ids_of_calls_follow_from_the_request_id(talk):
    t = talk()
    one, again, other = (parse(t, CALL, request_id=i)["message"]["tool_calls"][0]["id"] for i in ("a", "a", "b"))
    assert one == again != other
    fresh = {parse(t, CALL)["message"]["tool_calls"][0]["id"] for _ in range(2)}
    assert len(fresh) == 2


def test_the_request_is_heeded(talk):
    t = talk()
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert parse(t, '{"city": "Oslo"}', reasoning_open=False, chat_request=t.request(tool_choice=named))["message"][
        "tool_calls"
    ]
    assert parse(t, CALL, reasoning_open=False, chat_request={})["message"]["content"] == CALL
    hidden = parse(t, "<think>hmm</think>So.", chat_request=t.request(include_reasoning=False))["message"]
    assert (hidden["reasoning"], hidden["content"]) == (None, "So.")


def test_without_parsers_a_request_is_not_needed(talk):
    assert talk(None, None).derenderer.parse({"text": CALL})["message"]["content"] == CALL


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": 5}, "text"),
        ({"text": "a"}, "chat_request"),
        ({"text": "a" * (16 * 8192 + 1), "chat_request": {}}, "text"),
        ({"text": "a", "chat_request": {"tool_choice": "maybe"}}, "chat_request.tool_choice"),
        ({"text": "a", "chat_request": {}, "reasoning_open": "yes"}, "reasoning_open"),
    ],
)
def test_what_is_refused(talk, body, param):
    with pytest.raises(InputError) as error:
        talk().derenderer.parse(body)
    assert error.value.param == param


def test_an_empty_text_is_an_empty_message(talk):
    assert parse(talk(), "") == {
        "message": {"role": "assistant", "content": None, "reasoning": None},
        "finish_reason": "stop",
    }
