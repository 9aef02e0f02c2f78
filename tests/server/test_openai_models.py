"""The official client's own models accept our bodies, with its strict reading of what may be null."""

from __future__ import annotations

import json

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from derender_server.wire import responses

END = "<|im_end|>"


def logprobs(t, text):
    return {"content": [{"token_id": i, "logprob": -0.5, "top_logprobs": []} for i in t.ids(text)]}


def checked(model, ours, body):
    """The body read by the official model and by our own; nothing may be of another type than declared."""
    encoded = json.dumps(body)
    ours.model_validate_json(encoded, strict=True)
    return model.model_validate_json(encoded, strict=True)


@pytest.mark.parametrize("output", ["text", "call", "reasoning"])
def test_chat_completions(talk, output):
    t = talk()
    text = {"text": f"Hi{END}", "call": f"a {t.call}{END}", "reasoning": f"<think>a</think>b{END}"}[output]
    body = t.chat(text, t.request(logprobs=True), logprobs=logprobs(t, text))
    found = checked(ChatCompletion, responses.ChatCompletion, body)
    assert found.usage.completion_tokens == len(t.ids(text))
    if output == "call":
        assert found.choices[0].message.tool_calls[0].function.name == "get_weather"
        assert found.choices[0].finish_reason == "tool_calls"
    assert found.choices[0].logprobs.content[0].top_logprobs == []


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_chat_completion_chunks(talk, size):
    t = talk()
    answers = t.chunks(f"<think>a</think>b {t.call}\n{t.call}{END}", size=size)
    chunks = [checked(ChatCompletionChunk, responses.ChatCompletionChunk, answer["chunk"]) for answer in answers]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert {call.index for call in calls} == {0, 1}
    assert sum(call.id is not None for call in calls) == 2


def test_usage_chunks(talk):
    t = talk(None, None)
    body = {"stream": True, "generate_chunk": {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}}
    found = checked(ChatCompletionChunk, responses.ChatCompletionChunk, t.derenderer.derender_chat_chunk(body)["chunk"])
    assert (found.choices, found.usage.total_tokens) == ([], 6)


def test_completions_and_their_chunks(talk):
    t = talk(None, None)
    choice = {"token_ids": t.ids("Hé"), "finish_reason": "stop", "logprobs": logprobs(t, "Hé")}
    request = {"logprobs": 1}
    whole = t.derenderer.derender_completion(
        {"generate_responses": [{"choices": [choice]}], "completion_request": request}
    )
    found = checked(Completion, responses.Completion, whole)
    assert found.choices[0].text == "Hé"
    assert found.choices[0].logprobs.tokens == ["H", "", "é"]
    chunk = t.derenderer.derender_completion_chunk(
        {"stream": True, "generate_chunk": {"choices": [choice]}, "completion_request": request}
    )["chunk"]
    assert checked(Completion, responses.Completion, chunk).choices[0].finish_reason == "stop"
