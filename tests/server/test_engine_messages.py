"""What engines send beside token ids. WIRE.md section 3."""

from __future__ import annotations

import json

import pytest


def one_shot(t, response):
    body = {"generate_response": response, "prompt_token_ids": t.ids("hi"), "chat_request": t.request()}
    return t.derenderer.derender_chat(json.loads(json.dumps(body)))


@pytest.mark.rule("1.14", "3.14")
def test_unknown_fields_are_ignored_wherever_they_stand(talk):
    t = talk()
    unknown = {"made_in": 2030, "nested": {"a": [1, None]}}
    entry = {"token_id": t.ids("A")[0], "logprob": -0.5, "rank": 1, "top_logprobs": [], **unknown}
    choice = {"index": 0, "token_ids": t.ids("A"), "logprobs": {"content": [entry], **unknown}, **unknown}
    response = {"request_id": "r", "choices": [choice], "usage": {"prompt_tokens": 2, **unknown}, **unknown}
    body = {"generate_response": response, "prompt_token_ids": t.ids("hi"), "chat_request": t.request(**unknown)}
    assert t.derenderer.derender_chat({**body, **unknown})["choices"][0]["message"]["content"] == "A"
    chunk = {"request_id": "r", "choices": [{**choice, "finish_reason": None}], **unknown}
    body = {"stream": True, "generate_chunk": chunk, "prompt_token_ids": t.ids("hi"), "chat_request": t.request()}
    answer = t.derenderer.derender_chat_chunk({**body, **unknown})
    assert answer["chunk"]["choices"][0]["delta"]["content"] == "A"


@pytest.mark.rule("3.14")
def test_an_engine_need_say_no_more_than_the_token_ids(talk):
    t = talk()
    (choice,) = one_shot(t, {"choices": [{"token_ids": t.ids("Hi")}]})["choices"]
    assert (choice["index"], choice["finish_reason"], choice["stop_reason"], choice["logprobs"]) == (
        0,
        "stop",
        None,
        None,
    )


@pytest.mark.rule("3.14")
@pytest.mark.parametrize("reason", ["stop", "length", "abort", "repetition"])
def test_the_engines_finish_reason_goes_through(talk, reason):
    t = talk()
    response = {"choices": [{"token_ids": t.ids("Hi"), "finish_reason": reason}]}
    assert one_shot(t, response)["choices"][0]["finish_reason"] == reason


@pytest.mark.rule("3.20")
def test_what_only_engine_and_client_understand_goes_through(talk):
    t = talk()
    extras = {
        "prompt_logprobs": [None, {"300": {"logprob": -1.5, "rank": 1, "decoded_token": "x"}}],
        "kv_transfer_params": {"remote_host": "h", "blocks": [1, 2], "deep": {"a": None}},
        "metrics": {"queue_time": 0.25},
    }
    answer = one_shot(t, {"choices": [{"token_ids": t.ids("Hi")}], **extras})
    assert {key: answer[key] for key in extras} == extras
    plain = one_shot(t, {"choices": [{"token_ids": t.ids("Hi")}]})
    assert {key: plain[key] for key in extras} == dict.fromkeys(extras)
