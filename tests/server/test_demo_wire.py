"""The whole wire through the demo: render, generate, derender. A stream adds up to the one-shot answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from derender_server.app import create_app
from derender_server.demo.engine import GENERATE_PATH
from derender_server.settings import Settings

Body = dict[str, Any]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
LAMP = {"type": "function", "function": {"name": "set_lamp", "parameters": {"type": "object", "properties": {}}}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ASK = {"role": "user", "content": 'Say "日本 🦜 </tool_call>" in Łódź, 3 times'}
THINKING_OFF = {"chat_template_kwargs": {"enable_thinking": False}}
TOOLS = {"tools": [WEATHER, LAMP]}

REQUESTS: dict[str, Body] = {
    "plain": {},
    "no thinking": THINKING_OFF,
    "choices": {"n": 3},
    "tools": TOOLS,
    "tools without thinking": {**TOOLS, **THINKING_OFF},
    "tools and choices": {**TOOLS, "n": 2},
    "no tool allowed": {**TOOLS, "tool_choice": "none"},
    "some tool": {**TOOLS, "tool_choice": "required"},
    "one tool": {**TOOLS, "tool_choice": NAMED},
    "one tool without thinking": {**TOOLS, **THINKING_OFF, "tool_choice": NAMED},
    "no arguments": {"tools": [LAMP]},
    "logprobs": {**TOOLS, "logprobs": True, "top_logprobs": 2},
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "reasoning withheld": {**TOOLS, "include_reasoning": False},
    "cut in thoughts": {"max_tokens": 9},
    "cut in the answer": {**THINKING_OFF, "max_tokens": 9},
}
"""Requests by name. Answers that are cut within a call are not here: there the two may differ."""


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient[Litestar]]:
    with TestClient(create_app(Settings(model="demo"))) as client:
        yield client


def post(client: TestClient[Litestar], path: str, body: Body) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def complete(client: TestClient[Litestar], chat_request: Body) -> list[Body]:
    """The choices of a chat completion."""
    rendered = post(client, "/v1/chat/completions/render", chat_request)
    body = {
        "generate_response": post(client, GENERATE_PATH, rendered),
        "chat_request": chat_request,
        "prompt_token_ids": rendered["token_ids"],
    }
    choices: list[Body] = post(client, "/v1/chat/completions/derender", body)["choices"]
    return choices


def stream(client: TestClient[Litestar], chat_request: Body, size: int) -> list[Body]:
    """The same choices from the chunks of a stream, ``size`` tokens in each."""
    chat_request = {**chat_request, "stream": True}
    rendered = post(client, "/v1/chat/completions/render", chat_request)
    events = client.post(GENERATE_PATH, json=rendered).text.split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    folded: dict[int, Body] = {}
    states: dict[int, Body] = {}
    for chunk in regroup(chunks, size):
        index = chunk["choices"][0]["index"]
        body = {"stream": True, "generate_chunk": chunk, "chat_request": chat_request}
        body |= {"stream_state": states[index]} if index in states else {"prompt_token_ids": rendered["token_ids"]}
        answer = post(client, "/v1/chat/completions/derender", body)
        states[index] = answer["stream_state"]
        for choice in answer["chunk"]["choices"]:
            fold(folded.setdefault(index, {"index": index, "message": {}, "logprobs": []}), choice)
    return [folded[index] for index in sorted(folded)]


def regroup(chunks: list[Body], size: int) -> Iterator[Body]:
    """Chunks with ``size`` tokens of one choice each."""
    by_index: dict[int, list[Body]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            waiting = by_index.setdefault(choice["index"], [])
            waiting.append(choice)
            if len(waiting) == size or choice["finish_reason"]:
                joined = {**choice, "token_ids": [token_id for one in waiting for token_id in one["token_ids"]]}
                if choice["logprobs"]:
                    joined["logprobs"] = {"content": [entry for one in waiting for entry in one["logprobs"]["content"]]}
                waiting.clear()
                yield {**chunk, "choices": [joined]}


def fold(whole: Body, choice: Body) -> None:
    delta, message = choice["delta"], whole["message"]
    if "role" in delta:
        assert "role" not in message, "the role came twice"
        message["role"] = delta["role"]
    for field in ("content", "reasoning"):
        if delta.get(field):
            message[field] = message.get(field, "") + delta[field]
    for piece in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            calls.append({"type": piece["type"], "id": piece["id"], "function": {**piece["function"]}})
        else:
            assert set(piece) == {"index", "function"}
            assert set(piece["function"]) == {"arguments"}
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    if choice.get("logprobs"):
        whole["logprobs"] += choice["logprobs"]["content"]
    if choice.get("finish_reason"):
        assert "finish_reason" not in whole, "a choice finished twice"
        whole["finish_reason"] = choice["finish_reason"]


def message_of(choice: Body) -> Body:
    """The parts of a one-shot message that a stream tells."""
    return {key: value for key, value in choice["message"].items() if value}


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_adds_up_to_the_one_shot_answer(client: TestClient[Litestar], name: str, size: int) -> None:
    request = {"messages": [ASK], "request_id": "1", **REQUESTS[name]}
    whole, streamed = complete(client, request), stream(client, request, size)
    assert [choice["index"] for choice in streamed] == [choice["index"] for choice in whole]
    for one, other in zip(whole, streamed, strict=True):
        assert other["message"] == message_of(one)
        assert other["finish_reason"] == one["finish_reason"]
        assert other["logprobs"] == ((one["logprobs"] or {}).get("content") or [])


def test_thoughts_and_answer(client: TestClient[Litestar]) -> None:
    (choice,) = complete(client, {"messages": [ASK]})
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["reasoning"].startswith("The user asks: ")
    assert choice["message"]["content"].startswith("You asked: ")
    assert "日本 🦜 " in choice["message"]["content"]
    assert "<" not in choice["message"]["content"]


def test_thoughts_and_call(client: TestClient[Litestar]) -> None:
    (choice,) = complete(client, {"messages": [ASK], **TOOLS})
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning"].startswith("The user asks: ")
    assert choice["message"]["content"] is None
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "日本 🦜 ", "days": 3}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_forced_call(client: TestClient[Litestar], choice: Any) -> None:
    request = {"messages": [ASK], **TOOLS, "tool_choice": choice}
    (answer,) = complete(client, request)
    (call,) = answer["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"])["days"] == 3
    assert answer["finish_reason"] == ("stop" if choice is NAMED else "tool_calls")


def test_the_tool_round_trip_ends(client: TestClient[Litestar]) -> None:
    messages: list[Body] = [ASK]
    (choice,) = complete(client, {"messages": messages, **TOOLS})
    (call,) = choice["message"]["tool_calls"]
    messages += [choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "clear"}'}]
    (choice,) = complete(client, {"messages": messages, **TOOLS})
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith('The tool answered: {"sky": "clear"}')


def test_a_final_message_is_continued(client: TestClient[Litestar]) -> None:
    begun = {"role": "assistant", "content": "It is"}
    request = {"messages": [ASK, begun], "continue_final_message": True, "add_generation_prompt": False}
    (choice,) = complete(client, request)
    assert choice["message"]["content"].startswith(" ... and so on.")
    assert not choice["message"].get("reasoning")


def test_completions(client: TestClient[Litestar]) -> None:
    request = {"prompt": ["Once upon a time", "There was"], "max_tokens": 5}
    rendered = post(client, "/v1/completions/render", request)
    responses = [post(client, GENERATE_PATH, one) for one in rendered]
    answer = post(client, "/v1/completions/derender", {"generate_responses": responses, "completion_request": request})
    assert [choice["text"] for choice in answer["choices"]] == [" ... and so"] * 2
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length", "length"]


def test_the_engine_is_documented(client: TestClient[Litestar]) -> None:
    operation = client.get("/openapi.json").json()["paths"][GENERATE_PATH]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/EngineRequest"
    }


def test_only_the_demo_has_an_engine() -> None:
    from derender_server.demo import demo_model_path

    with TestClient(create_app(Settings(model=str(demo_model_path())))) as client:
        assert client.post(GENERATE_PATH, json={"token_ids": [1]}).status_code == 404
