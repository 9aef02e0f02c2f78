"""One-shot chat derendering: WIRE.md section 4."""

from __future__ import annotations

import pytest

from derender_core.errors import InputError, TokenIdError
from derender_server.model import UnknownModelError

END = "<|im_end|>"


@pytest.mark.rule("4.7")
def test_a_message_has_content_reasoning_and_calls(talk):
    t = talk()
    body = t.chat(f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}{END}")
    choice = body["choices"][0]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "Let me look."
    assert choice["message"]["reasoning"] == "hmm"
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.rule("4.13")
def test_the_body_carries_all_fields_of_the_protocol(talk):
    t = talk()
    body = t.derenderer.derender_chat(
        {
            "model": "",
            "generate_response": {
                "request_id": "chatcmpl-9",
                "choices": [{"token_ids": t.ids("Hi")}],
                "prompt_logprobs": [None, {"5": {"logprob": -1.0}}],
                "kv_transfer_params": {"remote": "a"},
                "metrics": {"ttft": 0.5},
                "unknown_field": 1,
            },
            "prompt_tokens": 7,
            "prompt_token_ids": t.ids("x"),
            "chat_request": t.request(tools=None),
        }
    )
    assert body["id"] == "chatcmpl-9"
    assert body["object"] == "chat.completion"
    assert body["model"] == t.derenderer.model.name
    assert isinstance(body["created"], int)
    assert body["prompt_logprobs"] == [None, {"5": {"logprob": -1.0}}]
    assert body["kv_transfer_params"] == {"remote": "a"}
    assert body["metrics"] == {"ttft": 0.5}
    assert body["prompt_token_ids"] is None
    assert body["usage"]["prompt_tokens"] == 7
    assert body["usage"]["total_tokens"] == 9
    assert body["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "Hi", "reasoning": None},
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": None,
    }


@pytest.mark.rule("3.15")
def test_a_missing_request_id_gets_a_fresh_one(talk):
    t = talk(None, None)
    bodies = [t.derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": [65]}]}}) for _ in range(2)]
    assert all(body["id"].startswith("chatcmpl-") for body in bodies)
    assert bodies[0]["id"] != bodies[1]["id"]


@pytest.mark.rule("4.1")
def test_a_model_that_is_not_served_is_refused_with_the_valid_names(talk):
    t = talk()
    with pytest.raises(UnknownModelError, match=f"Valid names: `{t.derenderer.model.name}`"):
        t.derenderer.derender_chat({"model": "gpt-2", "generate_response": {"choices": [{"token_ids": [65]}]}})


@pytest.mark.rule("4.3")
def test_a_parser_without_chat_request_is_refused(talk):
    for parsers in (("hermes", None), (None, "qwen3")):
        with pytest.raises(InputError, match="chat_request is required") as error:
            talk(*parsers).derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": [65]}]}})
        assert error.value.param == "chat_request"


def test_without_parsers_chat_request_may_be_missing(talk):
    t = talk(None, None)
    body = t.derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": t.ids("plain")}]}})
    assert body["choices"][0]["message"]["content"] == "plain"
    assert "completion_tokens_details" not in body["usage"]


@pytest.mark.rule("4.4")
@pytest.mark.parametrize("token_ids", [None, []])
def test_a_choice_without_tokens_is_refused_by_name(talk, token_ids):
    t = talk(None, None)
    choices = [{"index": 0, "token_ids": [65]}, {"index": 1, "token_ids": token_ids}]
    with pytest.raises(InputError, match="choice 1") as error:
        t.derenderer.derender_chat({"generate_response": {"choices": choices}})
    assert error.value.param == "generate_response.choices.1.token_ids"


@pytest.mark.rule("3.16")
def test_output_that_is_text_already_is_refused(talk):
    t = talk(None, None)
    with pytest.raises(InputError) as error:
        t.derenderer.derender_chat({"generate_response": {"output_mode": "text", "choices": [{"token_ids": [65]}]}})
    assert error.value.param == "generate_response.output_mode"
    t.derenderer.derender_chat({"generate_response": {"output_mode": "tokens", "choices": [{"token_ids": [65]}]}})


@pytest.mark.rule("4.22")
def test_each_choice_is_parsed_by_itself(talk):
    t = talk()
    body = t.derenderer.derender_chat(
        {
            "generate_response": {
                "request_id": "r",
                "choices": [
                    {"index": 0, "token_ids": t.ids(f"{t.call}{END}")},
                    {"index": 1, "token_ids": t.ids("No tool needed."), "finish_reason": "length"},
                    {"index": 2, "token_ids": t.ids(f"{t.call}{END}")},
                ],
            },
            "prompt_token_ids": t.ids("x"),
            "chat_request": t.request(n=3),
        }
    )
    assert [choice["finish_reason"] for choice in body["choices"]] == ["tool_calls", "length", "tool_calls"]
    assert body["choices"][1]["message"]["content"] == "No tool needed."
    ids = [body["choices"][at]["message"]["tool_calls"][0]["id"] for at in (0, 2)]
    assert len(set(ids)) == 2, "ids are unique across a response"


# -- limits, before any decoding ---------------------------------------------------------------------------------------


def refused(t, body):
    with pytest.raises(InputError) as error:
        t.derenderer.derender_chat(body)
    return error.value


@pytest.mark.rule("4.2")
def test_more_choices_than_allowed_are_refused(small_model):
    from derender_server import Derenderer, ServedModel
    from derender_server.limits import Limits

    model = ServedModel.load(small_model())
    derenderer = Derenderer(model, limits=Limits(model.max_model_len, model.vocab_size, max_choices=2))
    with pytest.raises(InputError, match="--max-choices") as error:
        derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": [65]}] * 3}})
    assert error.value.param == "generate_response.choices"


@pytest.mark.rule("4.2")
@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"choices": [{"token_ids": [65] * 13}]}, "generate_response.choices.0.token_ids"),
        (
            {"choices": [{"token_ids": [65], "logprobs": {"content": [{"token_id": 65, "logprob": -1}] * 13}}]},
            "generate_response.choices.0.logprobs.content",
        ),
        ({"choices": [{"token_ids": [65]}], "prompt_logprobs": [None] * 13}, "generate_response.prompt_logprobs"),
        ({"choices": [{"token_ids": [65]}], "prompt_token_ids": [65] * 13}, "generate_response.prompt_token_ids"),
    ],
)
def test_lists_longer_than_max_model_len_are_refused(talk, response, param):
    t = talk(None, None, max_model_len=12)
    assert refused(t, {"generate_response": response}).param == param


@pytest.mark.rule("4.2")
def test_more_alternatives_than_allowed_are_refused(talk):
    t = talk(None, None)
    entry = {"token_id": 65, "logprob": -1.0, "top_logprobs": [{"token_id": 66, "logprob": -2.0}] * 21}
    response = {"choices": [{"token_ids": [65], "logprobs": {"content": [entry]}}]}
    error = refused(t, {"generate_response": response})
    assert error.param == "generate_response.choices.0.logprobs.content.0.top_logprobs"


@pytest.mark.rule("4.2")
@pytest.mark.parametrize("wrong", [-1, 264, 10**30])
def test_an_id_outside_the_vocabulary_is_named(talk, wrong):
    t = talk(None, None)
    error = refused(t, {"generate_response": {"choices": [{"token_ids": [65, wrong]}]}})
    assert isinstance(error, TokenIdError)
    assert error.param == "generate_response.choices.0.token_ids.1"
    assert str(wrong) in str(error)


@pytest.mark.rule("4.2")
def test_padding_rows_of_the_vocabulary_decode_to_nothing(talk):
    t = talk(None, None, model={"config": {"max_position_embeddings": 64, "vocab_size": 300}})
    assert t.message([*t.ids("a"), 290, *t.ids("b")])["content"] == "ab"


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("4.8")
def test_usage_counts_all_output_ids_with_the_stop_token(talk):
    t = talk()
    usage = t.chat(f"<think>ab</think>c{END}")["usage"]
    assert usage["prompt_tokens"] == 0
    assert usage["completion_tokens"] == 6
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.rule("4.8")
def test_reasoning_tokens_are_right_when_the_prompt_opened_the_block(talk):
    t = talk(None, "deepseek_r1")
    usage = t.chat("abc</think>4", prompt="x<think>\n")["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}


def test_usage_sums_over_choices(talk):
    t = talk()
    choices = [{"token_ids": t.ids("<think>ab</think>c")}, {"token_ids": t.ids("<think>x</think>yz")}]
    body = t.derenderer.derender_chat(
        {"generate_response": {"choices": choices}, "chat_request": t.request(), "prompt_tokens": 4}
    )
    assert body["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 10,
        "total_tokens": 14,
        "completion_tokens_details": {"reasoning_tokens": 3},
    }


# -- token ids on request ----------------------------------------------------------------------------------------------


def test_return_token_ids_gives_all_ids_of_prompt_and_output(talk):
    t = talk()
    body = t.chat(f"Hi{END}", t.request(return_token_ids=True))
    assert body["choices"][0]["token_ids"] == t.ids(f"Hi{END}")
    assert body["prompt_token_ids"] == t.ids("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.rule("4.9")
def test_the_engines_prompt_ids_stand_in_for_those_of_the_request(talk):
    t = talk(None, "deepseek_r1")
    response = {"choices": [{"token_ids": t.ids("sum it</think>4")}], "prompt_token_ids": t.ids("<think>\n")}
    body = t.derenderer.derender_chat({"generate_response": response, "chat_request": {"return_token_ids": True}})
    assert body["choices"][0]["message"]["reasoning"] == "sum it"
    assert body["prompt_token_ids"] == t.ids("<think>\n")


def test_a_negative_count_of_prompt_tokens_is_refused(talk):
    t = talk(None, None)
    chunk = {"stream": True, "generate_chunk": {"choices": []}, "prompt_tokens": -1}
    calls = [
        (t.derenderer.derender_chat, {"generate_response": {"choices": []}, "prompt_tokens": -1}, "prompt_tokens"),
        (t.derenderer.derender_chat_chunk, chunk, "prompt_tokens"),
        (t.derenderer.derender_completion_chunk, chunk, "prompt_tokens"),
        (
            t.derenderer.derender_completion,
            {"generate_responses": [{"choices": []}], "prompt_tokens": [-1]},
            "prompt_tokens.0",
        ),
    ]
    for derender, body, param in calls:
        with pytest.raises(InputError) as error:
            derender(body)
        assert error.value.param == param
