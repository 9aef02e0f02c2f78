"""Text completions, one-shot and streaming: WIRE.md sections 4 and 5."""

from __future__ import annotations

import json
import logging

import pytest

from derender_core.errors import InputError

END = "<|im_end|>"


@pytest.fixture
def t(talk):
    return talk()  # parsers are configured, and must not run


def response(t, *texts, **more):
    return {
        "request_id": "cmpl-1",
        "choices": [{"index": at, "token_ids": t.ids(x)} for at, x in enumerate(texts)],
        **more,
    }


def refused(t, **body):
    with pytest.raises(InputError) as error:
        t.derenderer.derender_completion(body)
    return error.value


@pytest.mark.rule("4.11")
def test_completions_run_no_parser(t):
    body = t.derenderer.derender_completion({"generate_responses": [response(t, f"<think>a</think>{t.call}{END}")]})
    assert body["choices"][0]["text"] == f"<think>a</think>{t.call}"
    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.rule("4.14")
def test_the_body_carries_all_fields_of_the_protocol(t):
    body = t.derenderer.derender_completion({"generate_responses": [response(t, "Hi")], "prompt_tokens": [3]})
    assert isinstance(body.pop("created"), int)
    assert body == {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": t.derenderer.model.name,
        "choices": [
            {
                "index": 0,
                "text": "Hi",
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": None,
                "prompt_token_ids": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        "kv_transfer_params": None,
    }


@pytest.mark.rule("4.14")
def test_choices_are_numbered_over_all_responses_and_usage_is_summed(t):
    body = t.derenderer.derender_completion(
        {
            "generate_responses": [response(t, "a", "b"), response(t, "cd", "ef")],
            "prompt_tokens": [3, 4],
            "prompt_token_ids": [[65], [66]],
            "completion_request": {"return_token_ids": True},
        }
    )
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [
        (0, "a"),
        (1, "b"),
        (2, "cd"),
        (3, "ef"),
    ]
    assert [choice["prompt_token_ids"] for choice in body["choices"]] == [[65], [65], [66], [66]]
    assert body["choices"][3]["token_ids"] == t.ids("ef")
    assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 6, "total_tokens": 13}


def test_no_responses_are_refused(t):
    assert refused(t, generate_responses=[]).param == "generate_responses"


@pytest.mark.rule("4.10")
@pytest.mark.parametrize("name", ["prompt_tokens", "prompt_token_ids"])
def test_lists_of_another_length_than_the_responses_are_refused(t, name):
    given = {"prompt_tokens": [1], "prompt_token_ids": [[65]]}[name]
    assert refused(t, generate_responses=[response(t, "a"), response(t, "b")], **{name: given}).param == name


@pytest.mark.rule("4.2")
def test_limits_hold_for_every_response(t):
    error = refused(t, generate_responses=[response(t, "a"), {"choices": [{"token_ids": [999]}]}])
    assert error.param == "generate_responses.1.choices.0.token_ids.0"
    error = refused(t, generate_responses=[response(t, "a")], prompt_token_ids=[[65, 999]])
    assert error.param == "prompt_token_ids.0.1"


@pytest.mark.rule("4.15")
def test_transfer_params_that_disagree_are_null_and_logged(t, caplog):
    same = [response(t, "a", kv_transfer_params={"x": 1}), response(t, "b", kv_transfer_params={"x": 1})]
    assert t.derenderer.derender_completion({"generate_responses": same})["kv_transfer_params"] == {"x": 1}
    other = [same[0], response(t, "b", kv_transfer_params={"x": 2})]
    with caplog.at_level(logging.WARNING, logger="derender"):
        assert t.derenderer.derender_completion({"generate_responses": other})["kv_transfer_params"] is None
    assert "disagree" in caplog.text


@pytest.mark.rule("4.12")
def test_what_affects_the_text_is_read_from_the_completion_request(t):
    def text(output, **request):
        body = {"generate_responses": [response(t, output)], "completion_request": {"prompt": 5, **request}}
        choice = t.derenderer.derender_completion(body)["choices"][0]
        return choice["text"], choice["stop_reason"]

    assert text("a</s>b", skip_special_tokens=False) == ("a</s>b", None)
    assert text("a##", stop=["##"]) == ("a", "##")
    assert text("a##", stop=["##"], include_stop_str_in_output=True) == ("a##", "##")
    assert text("a##b##", stop=["##"], min_tokens=4) == ("a##b", "##")
    assert text("ab", stop_token_ids=t.ids("b")) == ("a", t.ids("b")[0])
    assert text(f"a{END}", ignore_eos=True, skip_special_tokens=False) == (f"a{END}", None)
    assert text("a", echo=True) == ("a", None)


# -- streaming ---------------------------------------------------------------------------------------------------------


def stream(t, pieces, request=None, **last):
    state, answers = None, []
    for at, piece in enumerate(pieces):
        choice = {"index": 2, "token_ids": piece} | (last if at == len(pieces) - 1 else {})
        body = {"stream": True, "generate_chunk": {"request_id": "cmpl-1", "choices": [choice]}, "stream_state": state}
        body["completion_request"] = request
        answer = json.loads(json.dumps(t.derenderer.derender_completion_chunk(body)))
        state = answer["stream_state"]
        answers.append(answer)
    return answers


def test_a_completion_stream_adds_up_to_the_one_shot_text(t):
    text = f"é😀 <think>{t.call}"
    answers = stream(t, [[token_id] for token_id in t.ids(text + END)], finish_reason="stop")
    chunks = [answer["chunk"] for answer in answers]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert {chunk["choices"][0]["index"] for chunk in chunks} == {2}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert max(len(json.dumps(answer["stream_state"])) for answer in answers) < 250


def test_a_completion_stream_cuts_at_stop_strings(t):
    answers = stream(t, [t.ids("a#"), t.ids("#b")], {"stop": "##"}, finish_reason="stop", stop_reason="##")
    assert [answer["chunk"]["choices"][0]["text"] for answer in answers] == ["a", ""]
    assert answers[-1]["chunk"]["choices"][0]["stop_reason"] == "##"


def test_a_completion_stream_ends_with_usage(t):
    state = stream(t, [t.ids("ab")])[0]["stream_state"]
    body = {
        "stream": True,
        "generate_chunk": {"request_id": "cmpl-1", "choices": [], "usage": {"prompt_tokens": 4}},
        "stream_state": state,
    }
    chunk = t.derenderer.derender_completion_chunk(body)["chunk"]
    assert chunk["choices"] == []
    assert chunk["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


@pytest.mark.rule("5.14")
def test_completion_streams_take_the_replay_form(t):
    body = {
        "stream": True,
        "generate_chunk": {"choices": [{"token_ids": t.ids("é")[1:]}]},
        "stream_state": {"output_token_ids": t.ids("ab") + t.ids("é")[:1], "output_chunk_lens": [1, 2]},
    }
    assert t.derenderer.derender_completion_chunk(body)["chunk"]["choices"][0]["text"] == "é"


def test_a_state_of_a_chat_is_no_state_of_a_completion(t):
    state = t.chunks("Hi")[0]["stream_state"]
    body = {"stream": True, "generate_chunk": {"choices": [{"token_ids": [65]}]}, "stream_state": state}
    with pytest.raises(InputError) as error:
        t.derenderer.derender_completion_chunk(body)
    assert error.value.param == "stream_state.p"


def test_a_completion_stream_object_keeps_its_state(t):
    stream = t.derenderer.stream_completion({"stop": ["!"]})
    first = stream.push({"request_id": "cmpl-1", "choices": [{"token_ids": t.ids("a!"[:1])}]})
    last = stream.push({"choices": [{"token_ids": t.ids("!b"), "finish_reason": "stop"}]})
    assert [chunk["choices"][0]["text"] for chunk in (first, last)] == ["a", ""]
    assert last["id"] == "cmpl-1"
