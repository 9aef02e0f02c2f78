"""Derendering to Anthropic Messages: bodies and events that the official client accepts and adds up rightly."""

from __future__ import annotations

import json

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from derender_core.errors import InputError, StateError
from derender_server.wire import api_answers

END = "<|im_end|>"
EVENT = TypeAdapter(RawMessageStreamEvent)


@pytest.fixture
def t(api_talk):
    return api_talk("messages")


def outputs(t):
    rome = t.call.replace("Oslo", "Rome")
    return {
        "text": f"Hé 🦜 you{END}",
        "thinking": f"<think>\nhmm\n</think>\n\nSo.{END}",
        "call": f"{t.call}{END}",
        "all": f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}\n{rome}{END}",
        "text between calls": f"{t.call}\nand then\n{rome}\ndone{END}",
        "malformed call": f"a <tool_call>\nnot JSON\n</tool_call>{END}",
        "only thinking": f"<think>\nhmm\n</think>\n\n{END}",
        "nothing": END,
    }


def checked(body):
    """A body that the official model and ours accept as it is, without coercion."""
    api_answers.Message.model_validate_json(json.dumps(body), strict=True)
    return Message.model_validate_json(json.dumps(body), strict=True)


def accumulated(events):
    """What the official client makes of the events."""
    snapshot, buffers = None, {}
    for event in events:
        api_answers.MessageEvent.model_validate_json(json.dumps(event), strict=True)
        read = EVENT.validate_json(json.dumps(event), strict=True)
        snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs=buffers)
    return snapshot.to_dict()


@pytest.mark.parametrize("name", list(outputs(type("T", (), {"call": ""}))))
def test_the_official_client_adds_a_stream_up_to_the_one_shot_message(t, name):
    output = outputs(t)[name]
    whole = t.whole(output)
    checked(whole)
    for size in (1, 2, 7, 1000):
        assert accumulated(t.events(output, size=size)) == whole


def test_a_stream_may_be_cut_anywhere(t):
    output = outputs(t)["all"]
    ids, whole = t.ids(output), t.whole(output)
    for cut in range(1, len(ids)):
        assert accumulated(t.events([ids[:cut], ids[cut:]])) == whole


def test_blocks_in_the_order_of_the_output(t):
    whole = t.whole(outputs(t)["text between calls"])
    assert [block["type"] for block in whole["content"]] == ["tool_use", "text", "tool_use", "text"]
    assert [block["input"]["city"] for block in whole["content"] if "input" in block] == ["Oslo", "Rome"]
    ids = [block["id"] for block in whole["content"] if "id" in block]
    assert len(set(ids)) == 2
    assert all(one.startswith("toolu_") for one in ids)
    assert t.whole(outputs(t)["text between calls"]) == whole, "a retry gives the same ids"


def test_thinking_text_and_calls(t):
    whole = t.whole(outputs(t)["all"])
    thinking, text, *calls = whole["content"]
    assert thinking["thinking"] == "hmm"
    assert thinking["signature"]
    assert text["text"].strip() == "Let me look."
    assert [(call["name"], call["input"]) for call in calls] == [
        ("get_weather", {"city": "Oslo"}),
        ("get_weather", {"city": "Rome"}),
    ]
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("tool_use", None)
    assert whole["usage"]["output_tokens"] == len(t.ids(outputs(t)["all"]))
    assert whole["usage"]["output_tokens_details"] == {"thinking_tokens": 5}


def test_the_events_of_a_block_in_their_order(t):
    events = t.events(f"<think>\na\n</think>\n\nb{t.call}{END}", size=1000)
    assert [(event["type"], event.get("index")) for event in events] == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("message_delta", None),
        ("message_stop", None),
    ]
    kinds = [event["delta"]["type"] for event in events if event["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta", "input_json_delta"]
    assert events[0]["message"]["usage"]["output_tokens"] == 0


@pytest.mark.parametrize(
    ("output", "finish_reason", "expected"),
    [
        ("Hi", "stop", ("end_turn", None)),
        ("Half", "length", ("max_tokens", None)),
        ("<think>\nhal", "length", ("max_tokens", None)),
        ("Half", "abort", ("max_tokens", None)),
        ("Bad", "content_filter", ("refusal", None)),
        ("Text END", "stop", ("stop_sequence", "END")),
    ],
)
def test_stop_reasons(t, output, finish_reason, expected):
    request = t.request(stop_sequences=["END"])
    whole = t.whole(output, request, finish_reason=finish_reason)
    checked(whole)
    assert (whole["stop_reason"], whole["stop_sequence"]) == expected
    assert accumulated(t.events(output, request, finish_reason=finish_reason)) == whole


def test_a_call_goes_before_a_stop_sequence(t):
    request = t.request(stop_sequences=["END"])
    whole = t.whole(f"{t.call} END", request)
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("tool_use", "END")
    assert accumulated(t.events(f"{t.call} END", request)) == whole


def test_a_call_that_was_cut(api_talk):
    cut = 'Look: <tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'
    t = api_talk("messages")
    whole = t.whole(cut, finish_reason="length")
    assert [block["type"] for block in whole["content"]] == ["text"]
    streamed = accumulated(t.events(cut, finish_reason="length"))
    assert [block["type"] for block in streamed["content"]] == ["text", "tool_use"]
    assert streamed["stop_reason"] == whole["stop_reason"] == "max_tokens"
    t = api_talk("messages", stream_tool_calls="whole")
    assert accumulated(t.events(cut, finish_reason="length"))["content"] == whole["content"]


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, ["thinking", "text"]),
        ({"thinking": {"type": "adaptive"}}, ["thinking", "text"]),
        ({}, ["thinking", "text"]),
        ({"thinking": {"type": "disabled"}}, ["text"]),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, ["text"]),
        ({"include_reasoning": False}, ["text"]),
    ],
)
def test_thinking_is_shown_unless_the_request_says_no(t, fields, types):
    output = f"<think>\nhmm\n</think>\n\nSo.{END}"
    whole = t.whole(output, t.request(**fields))
    assert [block["type"] for block in whole["content"]] == types
    assert accumulated(t.events(output, t.request(**fields))) == whole


@pytest.mark.parametrize(
    ("choice", "types"),
    [
        ({"type": "auto"}, ["text", "tool_use", "tool_use"]),
        ({"type": "any"}, ["text", "tool_use", "tool_use"]),
        ({"type": "auto", "disable_parallel_tool_use": True}, ["text", "tool_use"]),
        ({"type": "none"}, ["text"]),
    ],
)
def test_tool_choice(t, choice, types):
    output = f"a {t.call}\n{t.call}{END}"
    request = t.request(tool_choice=choice)
    whole = t.whole(output, request)
    assert [block["type"] for block in whole["content"]] == types
    assert whole["stop_reason"] == ("end_turn" if choice["type"] == "none" else "tool_use")
    assert accumulated(t.events(output, request)) == whole


def test_a_named_tool_may_come_as_bare_arguments(t):
    request = t.request(tool_choice={"type": "tool", "name": "get_weather"})
    whole = t.whole('{"city": "Oslo"}', request)
    assert [(block["type"], block["input"]) for block in whole["content"]] == [("tool_use", {"city": "Oslo"})]
    assert whole["stop_reason"] == "tool_use"
    assert accumulated(t.events('{"city": "Oslo"}', request)) == whole


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1" * 5000, "1" * 5000),
        ("12345678901234567890123", 12345678901234567890123),
        ("1e999", "1e999"),
        ("0.5", 0.5),
        (r'"\ud800 a"', "\ufffd a"),
        (r'"\ud83e\udd9c"', "🦜"),
        (r'{"\udc00": ["\udc00"]}', {"\ufffd": ["\ufffd"]}),
    ],
    ids=["many digits", "large", "infinite", "small", "half a pair", "a pair", "nested"],
)
def test_arguments_become_an_object_whatever_is_in_them(t, value, expected):
    call = f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": {value}}}}}\n</tool_call>'
    (block,) = t.whole(call)["content"]
    assert block["input"] == {"city": expected}


# -- usage, state, errors ----------------------------------------------------------------------------------------------


def test_usage_tells_cached_tokens_apart(t):
    usage = {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
    start, *_, delta, _ = t.chunk(t.ids("a"), finish_reason="stop", usage=usage)["events"]
    assert start["message"]["usage"] == {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 0}
    assert delta["usage"]["input_tokens"] == 3
    assert delta["usage"]["output_tokens"] == 1


def test_the_state_does_not_grow_with_the_answer(t):
    state, sizes = None, []
    for _ in range(60):
        state = t.chunk(t.ids("word " * 20), state)["stream_state"]
        sizes.append(len(json.dumps(state)))
    assert max(sizes) < 450
    assert max(sizes) - sizes[0] <= 20  # counts with more digits


def test_a_retry_gives_the_same_events(t):
    state = t.chunk(t.ids("<think>\nhm"))["stream_state"]
    again = [t.chunk(t.ids(f"</think>So{t.call}"), state, finish_reason="stop") for _ in range(2)]
    assert again[0] == again[1]


def test_in_the_same_process_the_stream_keeps_its_state(t):
    output = outputs(t)["all"]
    ids = t.ids(output)
    stream = t.derenderer.stream_messages(t.request(), prompt_token_ids=t.ids("<|im_start|>assistant\n"))
    events = []
    for at, token_id in enumerate(ids, 1):
        choice = {"token_ids": [token_id], "finish_reason": "stop" if at == len(ids) else None}
        events += stream.push({"request_id": "r-1", "choices": [choice]})
    assert accumulated(events)["content"] == t.whole(output)["content"]


def test_a_chunk_that_only_reports_usage_gives_no_events(t):
    body = {
        "stream": True,
        "generate_chunk": {"choices": [], "usage": {"prompt_tokens": 1}},
        "messages_request": t.request(),
    }
    for state in (None, t.chunk(t.ids("a"))["stream_state"]):
        assert t.derenderer.derender_messages_chunk({**body, "stream_state": state})["events"] == []


def test_a_stream_that_has_ended_takes_no_more(t):
    ended = t.chunk(t.ids("a"), finish_reason="stop")["stream_state"]
    with pytest.raises(InputError) as error:
        t.chunk(t.ids("b"), ended)
    assert error.value.param == "generate_chunk.choices"


def test_the_first_chunk_needs_the_prompt(t):
    with pytest.raises(InputError) as error:
        t.chunk(t.ids("a"), prompt=None)
    assert error.value.param == "prompt_token_ids"


@pytest.mark.parametrize("api", [5, {"n": -1}, {"n": 1, "k": {}}, {"n": 1, "k": "c", "m": []}, {"x": 2**60}])
def test_a_tampered_state_is_refused(t, api):
    state = t.chunk(t.ids("a"))["stream_state"]
    with pytest.raises(StateError) as error:
        t.chunk(t.ids("b"), {**state, "a": api})
    assert error.value.param.startswith("stream_state.a")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"input_schema": {}}]}, "messages_request.tools.0.name"),
        ({"tools": [{"name": "f", "input_schema": 5}]}, "messages_request.tools.0.input_schema"),
        ({"tool_choice": {"type": "maybe"}}, "messages_request.tool_choice"),
        ({"tool_choice": {"type": ["auto"]}}, "messages_request.tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "messages_request.tool_choice"),
        ({"tool_choice": "auto"}, "messages_request.tool_choice"),
        ({"thinking": 5}, "messages_request.thinking"),
    ],
)
def test_requests_that_cannot_be_understood(t, fields, param):
    with pytest.raises(InputError) as error:
        t.whole("a", t.request(**fields))
    assert error.value.param == param


def test_an_answer_has_one_choice(t):
    with pytest.raises(InputError) as error:
        t.derenderer.derender_messages({"generate_response": {"choices": []}, "messages_request": {}})
    assert error.value.param == "generate_response.choices"


def test_without_parsers_all_is_text(api_talk):
    t = api_talk("messages", None, None)
    body = t.derenderer.derender_messages({"generate_response": {"choices": [{"token_ids": t.ids(f"Hi{END}")}]}})
    checked(body)
    assert body["id"].startswith("msg_")
    assert body["content"] == [{"type": "text", "text": "Hi"}]
