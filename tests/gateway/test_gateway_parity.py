"""The gateway answers what a client gets that renders, generates and derenders by itself."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.anyio

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'

APIS = {
    "chat/completions": (
        "chat_request",
        {"messages": [{"role": "user", "content": "hi"}], "tools": [CHAT_TOOL], "logprobs": True, "top_logprobs": 1},
    ),
    "completions": ("completion_request", {"prompt": "hi", "logprobs": 1}),
    "responses": (
        "responses_request",
        {"input": "hi", "tools": [{"type": "function", "name": "get_weather", "parameters": WEATHER}]},
    ),
    "messages": (
        "messages_request",
        {
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 400,
            "tools": [{"name": "get_weather", "input_schema": WEATHER}],
        },
    ),
}

OUTPUTS = {
    "plain": ("Grüße, 🌊 und <b>", "stop"),
    "reasoning": ("<think>\nHm, 1 < 2.\n</think>\n\nAnswer", "stop"),
    "calls": ("<think>\nAsk.\n</think>\n\nLet me see.\n" + CALL % "Oslo" + "\n" + CALL % "Zürich", "stop"),
    "cut call": ("<think>\nAsk.\n</think>\n\n" + (CALL % "Oslo")[:-30], "length"),
    "cut reasoning": ("<think>\nAsk", "length"),
    "a stop string": ("<think>\nAsk.\n</think>\n\nA HALT B", "stop"),
}


def undated(value):
    """Without the times at which it was made."""
    if isinstance(value, dict):
        return {key: undated(item) for key, item in value.items() if key not in ("created", "created_at")}
    return [undated(item) for item in value] if isinstance(value, list) else value


def with_logprobs(choice):
    """As an engine does it that was asked for log probabilities."""
    content = [
        {"token": f"token_id:{token}", "logprob": -0.5, "top_logprobs": [{"token_id": token, "logprob": -0.5}]}
        for token in choice["token_ids"]
    ]
    return choice | {"logprobs": {"content": content}}


async def rendered(served, api, request):
    answer = (await served.post(f"/v1/{api}/render", request, **{"x-request-id": "abc"})).json
    return answer[0] if isinstance(answer, list) else answer


def ask(api, output, more):
    field, request = APIS[api]
    stop = {"stop_sequences" if api == "messages" else "stop": ["HALT"]} if output == "a stop string" else {}
    return field, request | stop | more


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("api", APIS)
async def test_one_shot(serve, api, output):
    field, request = ask(api, output, {})
    text, reason = OUTPUTS[output]
    async with serve() as served:
        prompt = (await rendered(served, api, request))["token_ids"]
        response = served.response(text, finish_reason=reason)
        response["choices"] = [with_logprobs(choice) for choice in response["choices"]]
        chunks = served.chunks(text, finish_reason=reason)
        for chunk in chunks:
            chunk["choices"] = [with_logprobs(choice) for choice in chunk["choices"]]
        served.engines.play(chunks if output == "a stop string" else response)
        got = await served.post(f"/v1/{api}", request, **{"x-request-id": "abc"})
        own = served.engines.requests[0]

        response["request_id"] = own.request_id
        if output == "a stop string":  # which ended the engine's request: what came behind it was never made
            taken = served.engines.streams[0].read
            kept = [chunk["choices"][0] for chunk in chunks[:taken]]
            response["choices"][0]["token_ids"] = [token for choice in kept for token in choice["token_ids"]]
            response["choices"][0]["logprobs"]["content"] = [
                entry for choice in kept for entry in choice["logprobs"]["content"]
            ]
            assert 0 < taken < len(chunks)
        many = api == "completions"
        body = {
            "generate_responses" if many else "generate_response": [response] if many else response,
            "prompt_tokens": [len(prompt)] if many else len(prompt),
            "prompt_token_ids": [prompt] if many else prompt,
            field: request,
        }
        wanted = await served.post(f"/v1/{api}/derender", body)
    assert (got.status, wanted.status) == (200, 200), got.received
    assert own.token_ids == prompt
    assert undated(got.json) == undated(wanted.json)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("api", APIS)
async def test_streamed(serve, api, output, size):
    field, request = ask(api, output, {"stream": True})
    text, reason = OUTPUTS[output]
    async with serve() as served:
        chunks = served.chunks(text, size=size, finish_reason=reason)
        for chunk in chunks:
            chunk["choices"] = [with_logprobs(choice) for choice in chunk["choices"]]
        served.engines.play(chunks)
        got = await served.post(f"/v1/{api}", request, **{"x-request-id": "abc"})
        assert got.status == 200
        own = served.engines.requests[0]
        wanted = await by_hand(served, api, field, request, chunks, own)
    # Behind a stop string the loop by hand gets chunks that say nothing; the gateway has left by then.
    answers = [data for data in got.data if data != "[DONE]"]
    assert undated(answers) == undated(wanted)


async def by_hand(served, api, field, request, chunks, own):
    """Chunks or events as a client gets them that keeps the state itself, until its answer has finished."""
    found, state, transcript = [], None, {"output": [], "text": ""}
    for chunk in chunks:
        body = {
            "stream": True,
            "generate_chunk": chunk | {"request_id": own.request_id},
            "stream_state": state,
            "prompt_token_ids": own.token_ids,
            field: request,
        }
        if api == "responses":
            body["transcript"] = transcript
        answer = (await served.post(f"/v1/{api}/derender", body)).json
        state = json.loads(json.dumps(answer["stream_state"]))
        parts = [answer["chunk"]] if "chunk" in answer else answer["events"]
        found += parts
        for event in parts:
            kind = event.get("type", "")
            if kind.endswith(".delta"):
                transcript["text"] += event["delta"]
            elif kind == "response.output_item.done":
                transcript["output"].append(event["item"])
                transcript["text"] = ""
        if any(is_last(part) for part in parts):
            break
    return found


def is_last(part):
    if "choices" in part:
        return part["choices"][0]["finish_reason"] is not None
    return part["type"] in ("message_stop", "response.completed", "response.incomplete")
