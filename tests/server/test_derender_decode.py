"""Bodies to request models: the fast twins read what the pydantic models say."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import BaseModel

from derender_core.errors import InputError
from derender_server.wire import derender
from derender_server.wire.decode import decode_body, decode_either, decode_value, from_value

SHAPES = [
    derender.DerenderChatRequest,
    derender.DerenderChatStreamRequest,
    derender.DerenderCompletionRequest,
    derender.DerenderCompletionStreamRequest,
]
LOGPROBS = {
    "content": [
        {"token_id": 1, "logprob": -1, "rank": 2, "top_logprobs": [{"token": "token_id:1", "logprob": -0.5}], "x": 1},
        {"token": "a", "logprob": -1.0, "bytes": [97]},
    ]
}
CHOICE = {"index": 1, "token_ids": [1, 2], "finish_reason": None, "stop_reason": "x", "logprobs": LOGPROBS, "new": {}}
USAGE = {"prompt_tokens": 1, "total_tokens": 2, "prompt_tokens_details": {"cached": 1}}
CHUNK = {"request_id": "r", "choices": [CHOICE], "usage": USAGE, "prompt_token_ids": [1]}
RESPONSE = {**CHUNK, "kv_transfer_params": {"a": [1]}, "metrics": None, "prompt_logprobs": [None, {}]}
VIEW = {"stop": ["a"], "stop_token_ids": [1], "n": 2, "messages": [{}], "logprobs": None, "temperature": 1}
BODIES = {
    derender.DerenderChatRequest: {"generate_response": RESPONSE, "chat_request": {**VIEW, "tools": [{"a": 1}]}},
    derender.DerenderChatStreamRequest: {
        "stream": True,
        "generate_chunk": CHUNK,
        "stream_state": {"a": [1, {"b": None}]},
        "chat_request": {**VIEW, "tool_choice": {"x": 1}},
    },
    derender.DerenderCompletionRequest: {
        "stream": None,
        "generate_responses": [RESPONSE],
        "prompt_tokens": [1],
        "prompt_token_ids": [[1]],
        "completion_request": VIEW,
    },
    derender.DerenderCompletionStreamRequest: {"stream": True, "generate_chunk": {"choices": []}},
}


def plain(value):
    """A model or its twin as plain values."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("model", SHAPES)
def test_the_twin_reads_the_same_as_the_model(model):
    body = BODIES[model]
    twin = decode_body(msgspec.json.encode(body), model)
    assert plain(twin) == plain(model.model_validate(body))


@pytest.mark.parametrize("model", SHAPES)
def test_a_twin_is_accepted_where_a_model_is(model):
    twin = decode_body(msgspec.json.encode(BODIES[model]), model)
    assert from_value(twin, model) is twin


@pytest.mark.parametrize("model", SHAPES)
def test_twin_and_model_refuse_the_same_fields(model):
    """Every field, given a value of every kind: both take it, or the error names the field."""
    values = [None, True, 1, 1.5, "x", [], {}, [None], [1], ["x"], [{}], {"a": 1}]
    for name in model.model_fields.keys() - {"stream"}:  # which `decode_either` looks at first
        for value in values:
            body = {**BODIES[model], name: value}
            try:
                expected = plain(model.model_validate(body))
            except ValueError:
                expected = None
            encoded = msgspec.json.encode(body)
            if expected is None:
                with pytest.raises(InputError) as error:
                    decode_body(encoded, model)
                assert error.value.param is not None
                assert error.value.param.split(".")[0] == name
            else:
                assert plain(decode_body(encoded, model)) == expected


@pytest.mark.rule("1.13", "2.11")
def test_stream_selects_the_shape_and_the_errors_are_of_that_shape_only():
    def wrong(body):
        with pytest.raises(InputError) as error:
            decode_either(body, derender.DerenderChatRequest, derender.DerenderChatStreamRequest)
        return error.value.param

    assert wrong(b'{"stream": true}') == "generate_chunk"
    assert wrong(b'{"stream": false}') == "generate_response"
    assert wrong(b"{}") == "generate_response"
    assert wrong(b'{"stream": "yes"}') == "stream"
    assert wrong(b'{"stream": 1, "generate_chunk": {"choices": []}}') == "stream"
    assert wrong(b'{"stream": true, "generate_response": 5, "generate_chunk": 5}') == "generate_chunk"


@pytest.mark.rule("2.10")
@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"generate_response": {"choices": [{"token_ids": ["1"]}]}}', "generate_response.choices.0.token_ids.0"),
        (b'{"generate_response": {"choices": [{"token_ids": [1.0]}]}}', "generate_response.choices.0.token_ids.0"),
        (b'{"generate_response": {"choices": [{"token_ids": [true]}]}}', "generate_response.choices.0.token_ids.0"),
        (b'{"generate_response": {"choices": [{"stop_reason": []}]}}', "generate_response.choices.0.stop_reason"),
        (b'{"generate_response": {"choices": [{"index": null}]}}', "generate_response.choices.0.index"),
        (b'{"generate_response": {}}', "generate_response.choices"),
        (b'{"generate_response": []}', "generate_response"),
        (
            b'{"generate_response": {"choices": [{"logprobs": {"content": [{}]}}]}}',
            "generate_response.choices.0.logprobs.content.0.logprob",
        ),
    ],
)
def test_the_first_wrong_field_is_named_by_its_dotted_path(body, param):
    with pytest.raises(InputError) as error:
        decode_body(body, derender.DerenderChatRequest)
    assert error.value.param == param


@pytest.mark.rule("8.4")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nul",
        b"[1,]",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'"\xff"',
        '{"a": "é"}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        b'{"a": "\\ud800"}',
        b'{"a": "\\udc00x"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_not_json_is_refused(body):
    for decode in (decode_value, lambda it: decode_body(it, derender.DerenderChatRequest)):
        with pytest.raises(InputError):
            decode(body)


@pytest.mark.rule("8.4")
def test_huge_integers_reach_the_range_check_and_nothing_breaks(talk):
    t = talk(None, None)
    body = msgspec.json.encode({"generate_response": {"choices": [{"index": 10**40, "token_ids": [10**40]}]}})
    with pytest.raises(InputError, match="out of range"):
        t.derenderer.derender_chat(decode_body(body, derender.DerenderChatRequest))


@pytest.mark.rule("8.4")
@pytest.mark.parametrize("wrong", [-1, 10**7])
def test_one_wrong_id_among_many_is_named(talk, wrong):
    ids = [5] * 400 + [wrong] + [5] * 100
    body = msgspec.json.encode({"generate_response": {"choices": [{"index": 0, "token_ids": ids}]}})
    with pytest.raises(InputError, match=f"token id {wrong} is out of range") as caught:
        talk(None, None).derenderer.derender_chat(decode_body(body, derender.DerenderChatRequest))
    assert caught.value.param == "generate_response.choices.0.token_ids.400"


@pytest.mark.rule("8.5")
def test_a_name_that_is_given_twice_is_refused():
    body = b'{"model": "a", "model": "b", "generate_response": {"choices": []}}'
    with pytest.raises(InputError, match="model is given twice") as caught:
        decode_body(body, derender.DerenderChatRequest)
    assert caught.value.param == "model"
