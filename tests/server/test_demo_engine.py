"""The demo engine over HTTP: one-shot and as server-sent events, with the options that clients of the wire use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from derender_core import InputError
from derender_server.demo.engine import GENERATE_PATH, MAX_CHOICES, demo_engine_handlers
from derender_server.demo.switches import Switches
from derender_server.errors import answer_error
from derender_server.model import ServedModel
from derender_server.wire.derender import GenerateResponse, GenerateStreamResponse

CHAT = "<|im_start|>user\nWhat is the weather in Łódź? 🦜<|im_end|>\n<|im_start|>assistant\n"
NO_THINKING = CHAT + "<think>\n\n</think>\n\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def model() -> ServedModel:
    return ServedModel.load("demo")


def application(model: ServedModel, tokens_per_chunk: int = 1) -> Litestar:
    return Litestar(
        route_handlers=demo_engine_handlers(model, Switches(tokens_per_chunk=tokens_per_chunk)),
        exception_handlers={InputError: answer_error},
        logging_config=None,
        openapi_config=None,
    )


@pytest.fixture(scope="module")
def client(model: ServedModel) -> Iterator[TestClient[Litestar]]:
    with TestClient(application(model)) as client:
        yield client


@pytest.fixture(scope="module")
def chat_ids(model: ServedModel) -> list[int]:
    return model.tokenizer.encode(CHAT)


def body(token_ids: list[int], sampling: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"request_id": "chatcmpl-1", "token_ids": token_ids, "sampling_params": sampling or {}, **fields}


def post(client: TestClient[Litestar], request: dict[str, Any]) -> dict[str, Any]:
    response = client.post(GENERATE_PATH, json=request)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    GenerateResponse.model_validate(answer)
    return answer


def stream(client: TestClient[Litestar], request: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a stream, whose frame is checked here."""
    response = client.post(GENERATE_PATH, json={**request, "stream": True})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, end = response.text.split("\n\n")
    assert end == ""
    assert events.pop() == "data: [DONE]"
    assert all(event.startswith("data: ") for event in events)
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    for chunk in chunks:
        GenerateStreamResponse.model_validate(chunk)
    return chunks


def fold(chunks: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The choices that the chunks of a stream add up to."""
    folded: dict[int, dict[str, Any]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        whole = folded.setdefault(choice["index"], {"index": choice["index"], "token_ids": [], "logprobs": None})
        assert whole.get("finish_reason") is None, "a choice goes on after it has finished"
        whole["token_ids"] += choice["token_ids"]
        if choice["logprobs"] is not None:
            whole["logprobs"] = {"content": (whole["logprobs"] or {"content": []})["content"]}
            whole["logprobs"]["content"] += choice["logprobs"]["content"]
        whole["finish_reason"], whole["stop_reason"] = choice["finish_reason"], choice["stop_reason"]
    return folded


def refused(client: TestClient[Litestar], request: dict[str, Any]) -> tuple[str, str]:
    for streams in (False, True):  # an error comes before the stream begins
        response = client.post(GENERATE_PATH, json={**request, "stream": streams})
        assert response.status_code == 400, response.text
    error = response.json()["error"]
    return error["param"], error["message"]


def text_of(model: ServedModel, choice: dict[str, Any]) -> str:
    return model.tokenizer.decode(choice["token_ids"], skip_special_tokens=False)


def test_one_shot(client: TestClient[Litestar], model: ServedModel, chat_ids: list[int]) -> None:
    answer = post(client, body(chat_ids, model="demo"))
    (choice,) = answer["choices"]
    assert answer["request_id"] == "chatcmpl-1"
    assert answer["model"] == "demo"
    assert answer["prompt_token_ids"] is None
    assert choice["index"] == 0
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] is None
    assert choice["logprobs"] is None
    text = text_of(model, choice)
    assert text.startswith("<think>\n")
    assert 'You asked: "What is the weather in Łódź? 🦜"' in text
    assert text.endswith("<|im_end|>")
    count = len(choice["token_ids"])
    assert answer["usage"] == {
        "prompt_tokens": len(chat_ids),
        "completion_tokens": count,
        "total_tokens": len(chat_ids) + count,
    }


def test_tools_from_the_parse_context(client: TestClient[Litestar], model: ServedModel, chat_ids: list[int]) -> None:
    context = {"tools": [TOOL], "tool_choice": "auto"}
    text = text_of(model, post(client, body(chat_ids, parse_context=context))["choices"][0])
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call><|im_end|>' in text
    context["tool_choice"] = "none"
    assert "<tool_call>" not in text_of(model, post(client, body(chat_ids, parse_context=context))["choices"][0])


def test_tools_from_the_prompt(client: TestClient[Litestar], model: ServedModel) -> None:
    section = f"<|im_start|>system\n<tools>\n{json.dumps(TOOL)}\n</tools><|im_end|>\n"
    text = text_of(model, post(client, body(model.tokenizer.encode(section + CHAT)))["choices"][0])
    assert '{"name": "get_weather", "arguments": {"city": "Łódź"}}' in text


def test_thinking_off(client: TestClient[Litestar], model: ServedModel) -> None:
    answer = post(client, body(model.tokenizer.encode(NO_THINKING)))
    assert text_of(model, answer["choices"][0]).startswith("You asked")


def test_the_smallest_request(client: TestClient[Litestar]) -> None:
    answer = post(client, {"token_ids": [1]})
    assert answer["request_id"].startswith("generate-")
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("tokens_per_chunk", [1, 4, 10_000])
@pytest.mark.parametrize("sampling", [{}, {"n": 3, "logprobs": 2}, {"n": 2, "max_tokens": 7}])
def test_a_stream_adds_up_to_the_one_shot_answer(
    model: ServedModel, chat_ids: list[int], sampling: dict[str, Any], tokens_per_chunk: int
) -> None:
    request = body(chat_ids, sampling, stream_options={"include_usage": True})
    with TestClient(application(model, tokens_per_chunk)) as client:
        whole, chunks = post(client, request), stream(client, request)
    assert list(fold(chunks).values()) == whole["choices"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    assert all(len(chunk["choices"]) == 1 and "usage" not in chunk for chunk in chunks[:-1])
    assert all(0 < len(chunk["choices"][0]["token_ids"]) <= tokens_per_chunk for chunk in chunks[:-1])
    assert {chunk["request_id"] for chunk in chunks} == {"chatcmpl-1"}


def test_a_stream_without_usage(client: TestClient[Litestar], chat_ids: list[int]) -> None:
    assert all(chunk["choices"] for chunk in stream(client, body(chat_ids)))


def test_choices_differ_take_turns_and_repeat(client: TestClient[Litestar], chat_ids: list[int]) -> None:
    request = body(chat_ids, {"n": 3})
    choices = post(client, request)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({tuple(choice["token_ids"]) for choice in choices}) == 3
    assert post(client, request)["choices"] == choices
    assert post(client, body(chat_ids))["choices"] == choices[:1]
    order = [chunk["choices"][0]["index"] for chunk in stream(client, request)]
    assert order[:6] == [0, 1, 2, 0, 1, 2]


def test_prompt_ids_on_demand(client: TestClient[Litestar], chat_ids: list[int]) -> None:
    request = body(chat_ids, return_token_ids=True)
    assert post(client, request)["prompt_token_ids"] == chat_ids
    first, *others = stream(client, request)
    assert first["prompt_token_ids"] == chat_ids
    assert all("prompt_token_ids" not in chunk for chunk in others)


@pytest.mark.parametrize("top", [0, 1, 5])
def test_logprobs(client: TestClient[Litestar], chat_ids: list[int], top: int) -> None:
    (choice,) = post(client, body(chat_ids, {"logprobs": top}))["choices"]
    entries = choice["logprobs"]["content"]
    assert [entry["token_id"] for entry in entries] == choice["token_ids"]
    for entry in entries:
        best = entry["top_logprobs"]
        assert len(best) == top
        assert [item["rank"] for item in best] == list(range(1, top + 1))
        assert [item["logprob"] for item in best] == sorted((item["logprob"] for item in best), reverse=True)
        assert len({item["token_id"] for item in best}) == top
        assert -1 < entry["logprob"] < 0
        if best:
            assert best[0] == {key: entry[key] for key in ("token_id", "logprob", "rank")}


def test_max_tokens(client: TestClient[Litestar], chat_ids: list[int]) -> None:
    (whole,) = post(client, body(chat_ids))["choices"]
    (cut,) = post(client, body(chat_ids, {"max_tokens": 5}))["choices"]
    assert cut["token_ids"] == whole["token_ids"][:5]
    assert cut["finish_reason"] == "length"
    assert cut["stop_reason"] is None
    (exact,) = post(client, body(chat_ids, {"max_tokens": len(whole["token_ids"])}))["choices"]
    assert exact == whole


def test_stop_token_ids(client: TestClient[Litestar], model: ServedModel, chat_ids: list[int]) -> None:
    stop = model.tokenizer.token_id("</think>")
    assert stop is not None
    (choice,) = post(client, body(chat_ids, {"stop_token_ids": [stop]}))["choices"]
    assert choice["token_ids"][-1] == stop
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


def test_ignore_eos(client: TestClient[Litestar], model: ServedModel, chat_ids: list[int]) -> None:
    (choice,) = post(client, body(chat_ids, {"ignore_eos": True, "max_tokens": 300}))["choices"]
    assert len(choice["token_ids"]) == 300
    assert choice["finish_reason"] == "length"
    assert model.eos_token_id in choice["token_ids"]


def test_min_tokens(client: TestClient[Litestar], model: ServedModel, chat_ids: list[int]) -> None:
    (choice,) = post(client, body(chat_ids, {"min_tokens": 200}))["choices"]
    assert len(choice["token_ids"]) >= 200
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"].index(model.eos_token_id) == len(choice["token_ids"]) - 1


def test_nothing_but_stop_tokens_ends_all_the_same(client: TestClient[Litestar], chat_ids: list[int]) -> None:
    (choice,) = post(client, body(chat_ids, {"stop_token_ids": list(range(4096)), "min_tokens": 9}))["choices"]
    assert len(choice["token_ids"]) == 1


def test_the_output_never_exceeds_the_context(chat_ids: list[int]) -> None:
    short = ServedModel.load("demo", max_model_len=len(chat_ids) + 10)
    with TestClient(application(short)) as client:
        (choice,) = post(client, body(chat_ids, {"max_tokens": 100}))["choices"]
        assert (len(choice["token_ids"]), choice["finish_reason"]) == (10, "length")
        param, message = refused(client, body(chat_ids * 2))
    assert param == "token_ids"
    assert f"{2 * len(chat_ids)} tokens" in message
    assert str(len(chat_ids) + 10) in message


@pytest.mark.parametrize(
    ("request_fields", "param"),
    [
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [4096]}, "token_ids"),
        ({"token_ids": [-1]}, "token_ids"),
        ({"token_ids": ["1"]}, "token_ids.0"),
        ({}, "token_ids"),
        ({"token_ids": [1], "sampling_params": {"n": 0}}, "sampling_params.n"),
        ({"token_ids": [1], "sampling_params": {"n": MAX_CHOICES + 1}}, "sampling_params.n"),
        ({"token_ids": [1], "sampling_params": {"max_tokens": 0}}, "sampling_params.max_tokens"),
        ({"token_ids": [1], "sampling_params": {"logprobs": -1}}, "sampling_params.logprobs"),
        ({"token_ids": [1], "sampling_params": {"logprobs": 21}}, "sampling_params.logprobs"),
        (
            {"token_ids": [1], "sampling_params": {"n": 2, "logprobs": 20, "ignore_eos": True}},
            "sampling_params.max_tokens",
        ),
        (
            {"token_ids": [1], "sampling_params": {"structured_outputs": {"regex": "a+"}}},
            "sampling_params.structured_outputs.regex",
        ),
        (
            {"token_ids": [1], "parse_context": {"tools": [], "tool_choice": {"function": {"name": "x"}}}},
            "parse_context.tool_choice",
        ),
    ],
)
def test_bad_requests_name_the_field(client: TestClient[Litestar], request_fields: dict[str, Any], param: str) -> None:
    assert refused(client, request_fields)[0] == param


def test_another_model_is_not_served(client: TestClient[Litestar]) -> None:
    response = client.post(GENERATE_PATH, json={"token_ids": [1], "model": "other"})
    assert response.status_code == 404
    assert "`other` does not exist" in response.json()["error"]["message"]


def test_a_body_that_is_not_json(client: TestClient[Litestar]) -> None:
    response = client.post(GENERATE_PATH, content="{")
    assert response.status_code == 400
    assert "not valid JSON" in response.json()["error"]["message"]


def test_half_of_a_surrogate_pair_in_a_schema(client: TestClient[Litestar], model: ServedModel) -> None:
    # JSON within JSON: the outer decoder does not see it.
    sampling = {"structured_outputs": {"json": '{"const": "\\ud800"}'}}
    (choice,) = post(client, body([1], sampling))["choices"]
    assert text_of(model, choice).endswith('"?"<|im_end|>')
