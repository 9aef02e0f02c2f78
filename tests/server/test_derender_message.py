"""From text to message, whatever the transport: WIRE.md section 6 and the finish-reason rules of section 4."""

from __future__ import annotations

import json
import re

import pytest

from derender_core.errors import InputError

NAMED = {"type": "function", "function": {"name": "get_weather"}}
SIZES = (1, 3, 1000)


def both(t, output, request=None, **more):
    """The message and the finish reason, one-shot; every stream must fold to the same."""
    choice = t.chat(output, request, **more)["choices"][0]
    message = choice["message"]
    for size in SIZES:
        answers = t.chunks(output, request, size=size, **more)
        folded = t.fold([answer["chunk"]["choices"][0]["delta"] for answer in answers])
        assert (folded["content"] or "") == (message["content"] or "")
        assert folded["reasoning"] == message["reasoning"]
        assert folded.get("tool_calls") == message.get("tool_calls")
        assert answers[-1]["chunk"]["choices"][0]["finish_reason"] == choice["finish_reason"]
    return message, choice["finish_reason"]


def names(message):
    return [call["function"]["name"] for call in message.get("tool_calls", [])]


@pytest.mark.rule("6.1")
def test_special_tokens_that_no_parser_declares_do_not_leak(talk):
    t = talk()
    message, _ = both(t, "<|im_start|>Hello</s> there<|im_end|>")
    assert message["content"] == "Hello there"


@pytest.mark.rule("6.1")
def test_skip_special_tokens_false_shows_them(talk):
    t = talk()
    message, _ = both(t, "Hello</s> there<|im_end|>", t.request(skip_special_tokens=False))
    assert message["content"] == "Hello</s> there"


@pytest.mark.rule("6.2")
def test_a_tool_marker_inside_open_reasoning_is_reasoning(talk):
    t = talk()
    message, finish = both(t, f"<think>\nI could write {t.call} here\n</think>\n\nNo.")
    assert message["content"] == "No."
    assert "<tool_call>" in message["reasoning"]
    assert "tool_calls" not in message
    assert finish == "stop"


@pytest.mark.rule("6.3")
@pytest.mark.parametrize(
    ("prompt", "reasoning", "content"),
    [
        ("<|im_start|>assistant\n<think>\n", "ab", "c"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None, "abc"),
    ],
)
def test_the_last_reasoning_marker_of_the_prompt_decides(talk, prompt, reasoning, content):
    t = talk()
    output = "ab</think>c" if reasoning else "abc"
    message, _ = both(t, output, prompt=prompt)
    assert (message["reasoning"], message["content"]) == (reasoning, content)


@pytest.mark.rule("6.13")
def test_chat_template_kwargs_reach_the_parsers(talk):
    t = talk(None, "deepseek_v3")
    thinking = t.derenderer.derender_chat(
        {
            "generate_response": {"choices": [{"token_ids": t.ids("ab</think>c")}]},
            "chat_request": {"chat_template_kwargs": {"thinking": True}},
        }
    )
    assert thinking["choices"][0]["message"]["reasoning"] == "ab"


def test_default_chat_template_kwargs_reach_the_parsers_under_those_of_the_request(talk):
    t = talk(None, "deepseek_v3", default_chat_template_kwargs={"thinking": True})
    response = {"choices": [{"token_ids": t.ids("ab</think>c")}]}
    on = t.derenderer.derender_chat({"generate_response": response, "chat_request": {}})
    assert on["choices"][0]["message"]["reasoning"] == "ab"
    off = {"chat_template_kwargs": {"thinking": False}}
    response = {"choices": [{"token_ids": t.ids("abc")}]}
    plain = t.derenderer.derender_chat({"generate_response": response, "chat_request": off})
    assert plain["choices"][0]["message"]["content"] == "abc"


@pytest.mark.rule("6.4")
def test_without_tools_markup_is_content(talk):
    t = talk()
    message, finish = both(t, t.call, t.request(tools=None))
    assert message["content"] == t.call
    assert finish == "stop"


@pytest.mark.rule("6.5")
def test_tool_choice_none_drops_calls_and_keeps_the_text_around_them(talk):
    t = talk()
    message, finish = both(t, f"Before.\n{t.call}", t.request(tool_choice="none"))
    assert message["content"] == "Before."
    assert "tool_calls" not in message
    assert finish == "stop"


@pytest.mark.rule("6.6")
def test_auto_runs_only_where_it_is_enabled(talk):
    on, off = talk(), talk(enable_auto_tool_choice=False)
    for choice in ({}, {"tool_choice": "auto"}):
        assert names(both(on, on.call, on.request(**choice))[0]) == ["get_weather"]
        message, finish = both(off, off.call, off.request(**choice))
        assert message["content"] == off.call
        assert finish == "stop"


@pytest.mark.rule("6.7")
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_forced_call_is_parsed_without_auto_tool_choice(talk, choice):
    t = talk(enable_auto_tool_choice=False)
    assert names(both(t, t.call, t.request(tool_choice=choice))[0]) == ["get_weather"]


@pytest.mark.rule("6.8")
@pytest.mark.parametrize("key", ["parameters", "arguments"])
def test_required_reads_a_bare_json_list(talk, key):
    t = talk()
    output = json.dumps(
        [{"name": "get_weather", key: {"city": "Oslo"}}, {"name": "get_weather", key: {"city": "Rome"}}]
    )
    message, finish = both(t, output, t.request(tool_choice="required"))
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        {"city": "Oslo"},
        {"city": "Rome"},
    ]
    assert finish == "tool_calls"


@pytest.mark.rule("6.8")
def test_a_named_function_reads_a_bare_json_object_as_its_arguments(talk):
    t = talk()
    message, finish = both(t, '{"city": "Oslo"}', t.request(tool_choice=NAMED))
    assert names(message) == ["get_weather"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert finish == "stop"


@pytest.mark.rule("6.9")
@pytest.mark.parametrize(("choice", "content"), [("required", ""), (NAMED, ""), ("auto", None)])
def test_absent_content_is_null_and_empty_with_a_forced_call(talk, choice, content):
    t = talk()
    assert t.message(t.call, t.request(tool_choice=choice))["content"] == content


@pytest.mark.rule("4.16")
@pytest.mark.parametrize(
    ("engine", "choice", "output", "expected"),
    [
        ("stop", "auto", "call", "tool_calls"),
        ("stop", "auto", "text", "stop"),
        ("stop", "required", "call", "tool_calls"),
        ("stop", "required", "text", "stop"),
        ("stop", NAMED, "call", "stop"),
        ("length", "auto", "call", "length"),
        ("abort", "auto", "call", "abort"),
        ("error", "auto", "text", "error"),
    ],
)
def test_finish_reason(talk, engine, choice, output, expected):
    t = talk()
    text = t.call if output == "call" else "I am fine, thanks."
    message, finish = both(t, text, t.request(tool_choice=choice), finish_reason=engine)
    assert finish == expected
    assert bool(message.get("tool_calls")) == (output == "call")


@pytest.mark.rule("4.17")
def test_include_reasoning_false_withholds_reasoning_logprobs_and_ids(talk):
    t = talk()
    output = "<think>secret</think>Hi"
    logprobs = {"content": [{"token_id": token_id, "logprob": -1.0} for token_id in t.ids(output)]}
    request = t.request(include_reasoning=False, return_token_ids=True, logprobs=True)
    body = t.chat(output, request, logprobs=logprobs)
    choice = body["choices"][0]
    assert choice["message"]["reasoning"] is None
    assert choice["message"]["content"] == "Hi"
    assert choice["logprobs"] is None
    assert choice["token_ids"] is None
    assert "secret" not in json.dumps(t.chunks(output, request))
    assert all("token_ids" not in answer["chunk"]["choices"][0] for answer in t.chunks(output, request))


@pytest.mark.rule("4.18")
def test_parallel_tool_calls_false_returns_the_first_call_only(talk):
    t = talk()
    second = t.call.replace("Oslo", "Rome")
    message, finish = both(t, f"{t.call}\n{second}", t.request(parallel_tool_calls=False))
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"city": "Oslo"}']
    assert finish == "tool_calls"


@pytest.mark.rule("4.19")
@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("reasoning", {"reasoning"}),
        ("reasoning_content", {"reasoning_content"}),
        ("both", {"reasoning", "reasoning_content"}),
    ],
)
def test_reasoning_field_names_the_field_in_messages_and_deltas(talk, field, keys):
    t = talk(reasoning_field=field)
    output = "<think>hmm</think>Hi"
    message = t.message(output)
    assert {key: message[key] for key in message if key.startswith("reasoning")} == dict.fromkeys(keys, "hmm")
    found = {key for delta in t.deltas(output) for key in delta if key.startswith("reasoning")}
    assert found == keys


@pytest.mark.rule("6.11")
def test_a_call_that_was_cut_is_not_returned_nor_shown_as_content(talk):
    t = talk()
    choice = t.chat(f"Hi\n{t.call[:-20]}", finish_reason="length")["choices"][0]
    assert choice["message"]["content"] == "Hi"
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "length"


@pytest.mark.rule("6.12")
def test_stream_tool_calls_whole_agrees_with_one_shot_for_cut_calls_too(talk):
    t = talk(stream_tool_calls="whole")
    message, finish = both(t, f"Hi\n{t.call[:-20]}", finish_reason="length")
    assert "tool_calls" not in message
    assert finish == "length"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "chat_request.tools.0.function"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "chat_request.tools.0.function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": 3}}]},
            "chat_request.tools.0.function.parameters",
        ),
        ({"tool_choice": "maybe"}, "chat_request.tool_choice"),
        ({"tool_choice": {"type": "function"}}, "chat_request.tool_choice"),
        ({"stop": 5}, "chat_request.stop"),
        ({"top_logprobs": "x"}, "chat_request.top_logprobs"),
    ],
)
def test_fields_of_the_chat_request_that_are_read_are_checked_by_name(talk, fields, param):
    t = talk()
    with pytest.raises(InputError) as error:
        t.chat("Hi", t.request(**fields))
    assert error.value.param == param


def test_fields_of_the_chat_request_that_are_not_read_are_not_checked(talk):
    t = talk()
    assert t.message("Hi", t.request(messages=5, temperature="hot", max_tokens={}))["content"] == "Hi"


def test_requests_that_differ_in_one_field_do_not_get_each_others_answers(talk):
    t = talk()
    output = f"<think>hmm</think>Hi {t.call}"
    requests = [
        t.request(),
        t.request(include_reasoning=False),
        t.request(tool_choice="none"),
        t.request(tools=None),
        t.request(return_token_ids=True),
        t.request(skip_special_tokens=False),
    ]
    first = [t.chat(output, request)["choices"] for request in requests]
    again = [t.chat(output, request)["choices"] for request in reversed(requests)]
    assert first == again[::-1]
    assert len({json.dumps(choices) for choices in first[:5]}) == 5
    large = t.request(tools=[{**t.weather, "function": {**t.weather["function"], "description": "x" * 50_000}}])
    assert t.chat(output, large)["choices"] == first[0], "too large to be remembered, and answered the same"


# -- ids of calls ------------------------------------------------------------------------------------------------------


def test_calls_of_a_format_with_ids_of_its_own_length_get_such_ids(talk):
    t = talk("mistral", None)
    output = '[TOOL_CALLS][{"name": "get_weather", "arguments": {}}, {"name": "get_weather", "arguments": {}}]'
    ids = [call["id"] for call in t.message(output)["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids)
    assert len(set(ids)) == 2
    assert [call["id"] for call in t.streamed(output)["tool_calls"]] == ids
    text = {"text": output, "chat_request": t.request(), "request_id": "chatcmpl-1"}
    assert [call["id"] for call in t.derenderer.parse(text)["message"]["tool_calls"]] == ids
    assert t.message("[TOOL_CALLS]get_weather[CALL_ID]abcDEF123[ARGS]{}")["tool_calls"][0]["id"] == "abcDEF123"


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_calls_have_such_ids_in_every_api(api_talk, api):
    t = api_talk(api, tool="mistral", reasoning=None)
    answer = t.whole('[TOOL_CALLS][{"name": "get_weather", "arguments": {}}]')
    call = answer["output"][0]["call_id"] if api == "responses" else answer["content"][0]["id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", call)
