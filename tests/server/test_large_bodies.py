"""Bodies that are decoded and answers that are encoded in pieces: the same as at once."""

from __future__ import annotations

import json

import msgspec
import pytest

from derender_core.errors import InputError
from derender_server.services import Services
from derender_server.settings import Settings
from derender_server.wire.decode import LARGE_BODY, decode_body, encode_fields, from_value
from derender_server.wire.derender import DerenderChatRequest, DerenderCompletionRequest, GenerateStreamResponse

TOKENS = 700


@pytest.fixture(scope="module")
def services():
    return Services(Settings(model="demo"))


def logprobs(alternatives=5):
    def entry(token_id):
        return {"token_id": token_id, "logprob": -token_id / 7, "rank": 1}

    tops = [entry(at) for at in range(40, 40 + alternatives)]
    return {"content": [{**entry(65 + at % 20), "top_logprobs": [*map(dict, tops)]} for at in range(TOKENS)]}


def choice(index=0):
    token_ids = [65 + at % 20 for at in range(TOKENS)]
    return {"index": index, "token_ids": token_ids, "finish_reason": "stop", "logprobs": logprobs()}


def chat(**request):
    return {
        "generate_response": {"request_id": "r", "choices": [choice(0), choice(1)]},
        "prompt_token_ids": [65],
        "chat_request": {"logprobs": True, "top_logprobs": 20, **request},
    }


def padded(body, size):
    """The body as JSON that is at least so long; what is unknown is ignored."""
    return msgspec.json.encode(body | {"padding": " " * max(size - len(msgspec.json.encode(body)), 0)})


@pytest.mark.parametrize("model", [DerenderChatRequest, DerenderCompletionRequest])
def test_decoding_in_pieces_gives_the_same_request(model):
    body = chat() | {"generate_responses": [chat()["generate_response"]] * 2}
    if model is DerenderCompletionRequest:
        body["prompt_token_ids"] = [[65], [66]]
    large = decode_body(padded(body, LARGE_BODY), model)
    small = model.model_validate(body)
    assert json.loads(encode_fields(large)) == json.loads(encode_fields(small))
    assert from_value(large, model) is large


def test_an_answer_in_pieces_is_the_same_answer(services):
    body = chat()
    assert len(padded(body, 0)) < LARGE_BODY
    small, large = (json.loads(services.derender_chat(padded(body, size))) for size in (0, LARGE_BODY))
    assert small["choices"][1]["logprobs"]["content"][699]["top_logprobs"][4]["token"]
    for answer in (small, large):
        answer["created"] = 0
    assert small == large


def test_what_is_wrong_deep_in_a_large_body_is_named(services):
    body = chat()
    body["generate_response"]["choices"][1]["logprobs"]["content"][5]["top_logprobs"][3]["logprob"] = "x"
    with pytest.raises(InputError) as error:
        services.derender_chat(padded(body, LARGE_BODY))
    assert error.value.param == "generate_response.choices.1.logprobs.content.5.top_logprobs.3.logprob"


def test_a_large_chunk_of_an_engine_is_a_chunk_in_process_too():
    chunk = {"request_id": "r", "choices": [choice()], "padding": " " * LARGE_BODY}
    decoded = decode_body(msgspec.json.encode(chunk), GenerateStreamResponse)
    assert from_value(decoded, GenerateStreamResponse) is decoded
    assert decoded.choices[0].logprobs.content[1].top_logprobs[2].token_id == 42
