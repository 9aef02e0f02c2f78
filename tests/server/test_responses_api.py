"""Derendering to OpenAI Responses: bodies and events that the official client accepts and adds up rightly."""

from __future__ import annotations

import json

import pytest
from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from derender_core.errors import InputError, StateError
from derender_server.wire import api_answers

END = "<|im_end|>"
EVENT = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
def t(api_talk):
    return api_talk("responses")


def outputs(t):
    rome = t.call.replace("Oslo", "Rome")
    return {
        "text": f"Hé 🦜 you{END}",
        "reasoning": f"<think>\nhmm\n</think>\n\nSo.{END}",
        "call": f"{t.call}{END}",
        "all": f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}\n{rome}{END}",
        "text between calls": f"{t.call}\nand then\n{rome}\ndone{END}",
        "malformed call": f"a <tool_call>\nnot JSON\n</tool_call>{END}",
        "only reasoning": f"<think>\nhmm\n</think>\n\n{END}",
        "nothing": END,
    }


def checked(body):
    """A body that the official model and ours accept as it is, without coercion."""
    api_answers.Response.model_validate_json(json.dumps(body), strict=True)
    return Response.model_validate_json(json.dumps(body), strict=True)


def accumulated(events):
    """The final response of the official client's own stream, without what it parses for itself."""
    state = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        api_answers.ResponseEvent.model_validate_json(json.dumps(event), strict=True)
        state.handle_event(EVENT.validate_json(json.dumps(event), strict=True))
    final = state._completed_response.to_dict()
    for item in final["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return final


def same(response):
    return {**response, "created_at": None}


@pytest.mark.parametrize("name", list(outputs(type("T", (), {"call": ""}))))
def test_the_official_client_adds_a_stream_up_to_the_one_shot_response(t, name):
    output = outputs(t)[name]
    whole = t.whole(output)
    checked(whole)
    for size in (1, 2, 7, 1000):
        events = t.events(output, size=size)
        assert same(accumulated(events)) == same(whole)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_stream_may_be_cut_anywhere(t):
    output = outputs(t)["all"]
    ids, whole = t.ids(output), t.whole(output)
    for cut in range(1, len(ids)):
        assert same(accumulated(t.events([ids[:cut], ids[cut:]]))) == same(whole)


def test_items_in_the_order_of_the_output(t):
    whole = t.whole(outputs(t)["text between calls"])
    assert [item["type"] for item in whole["output"]] == ["function_call", "message", "function_call", "message"]
    texts = [item["content"][0]["text"] for item in whole["output"] if item["type"] == "message"]
    assert [text.strip() for text in texts] == ["and then", "done"]
    ids = [item["id"] for item in whole["output"]]
    assert len(set(ids)) == 4
    assert [item["id"] for item in t.whole(outputs(t)["text between calls"])["output"]] == ids, "a retry gives the same"


def test_reasoning_text_and_calls(t):
    whole = t.whole(outputs(t)["all"])
    reasoning, message, *calls = whole["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "hmm"}]
    assert message["content"][0]["text"].strip() == "Let me look."
    assert [json.loads(call["arguments"]) for call in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert len({call["call_id"] for call in calls}) == 2
    assert checked(whole).output_text.strip() == "Let me look."
    assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 5}
    assert whole["usage"]["total_tokens"] == len(t.ids(outputs(t)["all"])) + whole["usage"]["input_tokens"]


def test_the_events_of_an_item_in_their_order(t):
    events = t.events(f"<think>\na\n</think>\n\nb{t.call}{END}", size=1000)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["output_index"] for event in events if "output_index" in event] == [0] * 6 + [1] * 6 + [2] * 4


def test_a_cut_output_is_incomplete(t):
    for output in ("<think>\nhm", "Half a sen"):
        whole = t.whole(output, finish_reason="length")
        checked(whole)
        assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert whole["output"][-1]["status"] == "incomplete"
        last = t.events(output, finish_reason="length")[-1]
        EVENT.validate_json(json.dumps(last), strict=True)
        assert last["type"] == "response.incomplete"
        assert same(last["response"]) == same(whole)


def test_an_aborted_output_is_incomplete_for_no_reason_that_the_api_has(t):
    whole = t.whole("Half", finish_reason="abort")
    checked(whole)
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", None)


def test_a_call_that_was_cut(api_talk):
    cut = 'Look: <tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'
    t = api_talk("responses")
    assert [item["type"] for item in t.whole(cut, finish_reason="length")["output"]] == ["message"]
    streamed = t.events(cut, finish_reason="length")[-1]["response"]["output"]
    assert [(item["type"], item["status"]) for item in streamed] == [
        ("message", "completed"),
        ("function_call", "incomplete"),
    ]
    t = api_talk("responses", stream_tool_calls="whole")
    assert (
        t.events(cut, finish_reason="length")[-1]["response"]["output"]
        == t.whole(cut, finish_reason="length")["output"]
    )


def test_stop_strings(t):
    request = t.request(stop=["END"])
    whole, stream = t.whole("Some text END", request), t.events("Some text END", request)
    assert whole["output"][0]["content"][0]["text"] == "Some text "
    assert same(accumulated(stream)) == same(whole)


def test_a_stream_is_complete_at_a_stop_string_though_the_engine_goes_on(t):
    request, output = t.request(stop=["END"]), "Some text END and more"
    whole, stream = t.whole(output, request), t.events(output, request)
    assert [event["type"] for event in stream].count("response.completed") == 1
    assert stream[-1]["type"] == "response.completed"
    assert stream[-1]["response"]["output"][0]["content"] == whole["output"][0]["content"]
    tokens = [body["usage"]["output_tokens"] for body in (stream[-1]["response"], whole)]
    assert tokens == [len(t.ids("Some text END")), len(t.ids(output))]


def test_parallel_tool_calls_false_gives_the_first_call_only(t):
    request = t.request(parallel_tool_calls=False)
    whole = t.whole(outputs(t)["all"], request)
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]
    assert whole["parallel_tool_calls"] is False
    assert same(accumulated(t.events(outputs(t)["all"], request))) == same(whole)


def test_a_named_function_may_come_as_bare_arguments(t):
    request = t.request(tool_choice={"type": "function", "name": "get_weather"})
    whole = t.whole('{"city": "Oslo"}', request)
    checked(whole)
    assert [(item["type"], item["arguments"]) for item in whole["output"]] == [("function_call", '{"city": "Oslo"}')]
    assert same(accumulated(t.events('{"city": "Oslo"}', request))) == same(whole)


def test_reasoning_can_be_hidden(t):
    request = t.request(include_reasoning=False)
    whole = t.whole(outputs(t)["all"], request)
    assert "reasoning" not in [item["type"] for item in whole["output"]]
    assert same(accumulated(t.events(outputs(t)["all"], request))) == same(whole)


def test_what_was_asked_for_is_repeated(t):
    asked = {
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "metadata": {"a": "b"},
        "temperature": 0,
        "top_p": 0.5,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_object"}},
        "truncation": "auto",
        "user": "u",
    }
    whole = t.whole("{}", t.request(**asked))
    checked(whole)
    assert {key: whole[key] for key in asked} == {**asked, "reasoning": {"effort": "low", "summary": None}}
    assert whole["tools"][0]["name"] == "get_weather"
    assert t.events("{}", t.request(**asked))[0]["response"]["instructions"] == "Be brief."


# -- the state and the transcript --------------------------------------------------------------------------------------


def test_the_state_does_not_grow_with_the_answer(t):
    state, sizes = None, []
    for _ in range(60):
        state = t.chunk(t.ids("word " * 20), state)["stream_state"]
        sizes.append(len(json.dumps(state)))
    assert max(sizes) < 450
    assert max(sizes) - sizes[0] <= 20  # counts with more digits


def test_a_chunk_that_closes_an_item_needs_the_transcript(t):
    first = t.chunk(t.ids("<think>\nhm"))
    with pytest.raises(InputError) as error:
        t.chunk(t.ids("</think>\n\nSo"), first["stream_state"])
    assert error.value.param == "transcript"
    assert "Send the same chunk and stream_state again" in str(error.value)
    said = "".join(event["delta"] for event in first["events"] if event["type"].endswith(".delta"))
    answer = t.chunk(t.ids("</think>\n\nSo"), first["stream_state"], transcript={"text": said})
    (done,) = [event for event in answer["events"] if event["type"] == "response.reasoning_text.done"]
    assert done["text"] == "hm"


def test_a_retry_gives_the_same_events(t):
    first = t.chunk(t.ids("<think>\nhm"))
    again = [t.chunk(t.ids("</think>So"), first["stream_state"], transcript={"text": "hm"}) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("text", ["", "h", "hmm", "mh"])
def test_a_wrong_text_in_the_transcript_is_refused(t, text):
    first = t.chunk(t.ids("<think>\nhm"))
    with pytest.raises(InputError) as error:
        t.chunk(t.ids("</think>So"), first["stream_state"], transcript={"text": text})
    assert error.value.param == "transcript.text"


def test_wrong_items_in_the_transcript_are_refused(t):
    first = t.chunk(t.ids("<think>hm</think>So"))
    item = next(event["item"] for event in first["events"] if event["type"] == "response.output_item.done")

    def end(items):
        return t.chunk([], first["stream_state"], finish_reason="stop", transcript={"output": items, "text": "So"})

    assert [one["type"] for one in end([item])["events"][-1]["response"]["output"]] == ["reasoning", "message"]
    cases = {
        "transcript.output": [[], [item, item]],
        "transcript.output.0": [[{**item, "id": "rs_other"}], [{**item, "type": "message"}], [{}]],
    }
    for param, wrong in cases.items():
        for items in wrong:
            with pytest.raises(InputError) as error:
                end(items)
            assert error.value.param == param


def test_no_transcript_is_needed_for_what_one_chunk_says(t):
    assert t.chunk(t.ids(outputs(t)["all"]), finish_reason="stop")["events"][-1]["type"] == "response.completed"


def test_in_the_same_process_the_stream_keeps_the_transcript(t):
    output = outputs(t)["all"]
    ids = t.ids(output)
    stream = t.derenderer.stream_responses(t.request(), prompt_token_ids=t.ids("<|im_start|>assistant\n"))
    events = []
    for at, token_id in enumerate(ids, 1):
        choice = {"token_ids": [token_id], "finish_reason": "stop" if at == len(ids) else None}
        events += stream.push({"request_id": "r-1", "choices": [choice]})
    assert accumulated(events)["output"] == t.whole(output)["output"]
    assert [item["type"] for item in stream.transcript.output] == [item["type"] for item in t.whole(output)["output"]]


def test_a_chunk_that_only_reports_usage_gives_no_events(t):
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    first = t.chunk(t.ids("a"))
    body = {"stream": True, "generate_chunk": {"choices": [], "usage": usage}, "responses_request": t.request()}
    for state in (None, first["stream_state"]):
        answer = t.derenderer.derender_responses_chunk({**body, "stream_state": state})
        assert answer["events"] == []
    last = t.chunk([], first["stream_state"], finish_reason="stop", usage=usage, transcript={"text": "a"})
    found = last["events"][-1]["response"]["usage"]
    assert (found["input_tokens"], found["output_tokens"]) == (7, 1)
    assert found["input_tokens_details"]["cached_tokens"] == 4


def test_a_stream_that_has_ended_takes_no_more(t):
    ended = t.chunk(t.ids("a"), finish_reason="stop")["stream_state"]
    with pytest.raises(InputError) as error:
        t.chunk(t.ids("b"), ended)
    assert error.value.param == "generate_chunk.choices"


def test_states_of_other_apis_are_refused(t, api_talk):
    state = t.chunk(t.ids("a"))["stream_state"]
    other = api_talk("messages")
    for refuse in (
        lambda: other.chunk(t.ids("b"), state),
        lambda: t.chunk(t.ids("b"), other.chunk(t.ids("a"))["stream_state"]),
        lambda: t.derenderer.derender_chat_chunk(
            {"stream": True, "generate_chunk": {"choices": []}, "stream_state": state, "chat_request": {}}
        ),
    ):
        with pytest.raises(StateError) as error:
            refuse()
        assert error.value.param == "stream_state.w"
    with pytest.raises(StateError) as error:
        t.chunk(t.ids("b"), {"output_token_ids": [65], "output_chunk_lens": [1]})
    assert error.value.param == "stream_state.output_token_ids"


@pytest.mark.parametrize(
    "api",
    [
        5,
        {"n": -1},
        {"n": True},
        {"n": "1"},
        {"k": "t"},
        {"n": 1, "k": "z"},
        {"n": 1, "k": []},
        {"n": 1, "k": "c", "c": "0"},
        {"n": 1, "k": "c", "m": 5},
        {"n": 1, "k": "c", "m": "f", "d": []},
        {"q": -1},
        {"q": 1.5},
        {"x": "abc"},
        {"e": None},
    ],
)
def test_a_tampered_state_is_refused(t, api):
    state = t.chunk(t.ids("a"))["stream_state"]
    with pytest.raises(StateError) as error:
        t.chunk(t.ids("b"), {**state, "a": api})
    assert error.value.param.startswith("stream_state.a")


def test_signed_states(api_talk):
    t = api_talk("responses", state_secret="s")
    state = t.chunk(t.ids("a"))["stream_state"]
    assert t.chunk(t.ids("b"), state)["events"][0]["delta"] == "b"
    with pytest.raises(StateError):
        t.chunk(t.ids("b"), {**state, "a": {}})


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_an_answer_has_one_choice(t):
    for choices in ([], [{"token_ids": [65]}, {"token_ids": [66]}]):
        with pytest.raises(InputError) as error:
            t.derenderer.derender_responses({"generate_response": {"choices": choices}, "responses_request": {}})
        assert error.value.param == "generate_response.choices"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "responses_request.tools.0.name"),
        ({"tools": [{"type": "function", "name": "f", "parameters": 5}]}, "responses_request.tools.0.parameters"),
        ({"tools": 5}, "responses_request.tools"),
        ({"tool_choice": "maybe"}, "responses_request.tool_choice"),
        ({"tool_choice": {"type": "mcp"}}, "responses_request.tool_choice"),
        ({"tool_choice": {"type": "function", "name": []}}, "responses_request.tool_choice"),
        ({"stop": [""]}, "responses_request.stop"),
    ],
)
def test_requests_that_cannot_be_understood(t, fields, param):
    with pytest.raises(InputError) as error:
        t.whole("a", t.request(**fields))
    assert error.value.param == param


def test_a_parser_needs_the_request(t):
    with pytest.raises(InputError) as error:
        t.derenderer.derender_responses({"generate_response": {"choices": [{"token_ids": [65]}]}})
    assert error.value.param == "responses_request"


def test_without_parsers_all_is_text(api_talk):
    t = api_talk("responses", None, None)
    body = t.derenderer.derender_responses({"generate_response": {"choices": [{"token_ids": t.ids(f"Hi{END}")}]}})
    checked(body)
    assert body["id"].startswith("resp_")
    assert [item["content"][0]["text"] for item in body["output"]] == ["Hi"]
