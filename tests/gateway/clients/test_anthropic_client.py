"""Anthropic's own client against the gateway."""

from __future__ import annotations

import anthropic
import pytest

from tests.gateway.clients.conftest import CALL, THOUGHT

USER = [{"role": "user", "content": "What is the weather in Oslo?"}]
TOOLS = [
    {
        "name": "get_weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
ANSWER = "Sunny, and 21 degrees – ☀️."


@pytest.fixture
def client(gateway):
    with anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as client:
        yield client


def ask(client, **fields):
    return client.messages.create(**{"model": "demo", "max_tokens": 500, "messages": USER, **fields})


def test_a_plain_answer_with_thinking(client, gateway):
    gateway.says(THOUGHT + ANSWER)
    message = ask(client, system="Be brief.")
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[0].thinking, message.content[1].text) == ("Hm.", ANSWER)
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 10


@pytest.mark.parametrize("tokens_per_chunk", [1, 5, 1000])
def test_a_streamed_answer(client, gateway, tokens_per_chunk):
    gateway.says(THOUGHT + ANSWER, tokens_per_chunk=tokens_per_chunk)
    with client.messages.stream(model="demo", max_tokens=500, messages=USER) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert message.content[-1].text == ANSWER
    assert message.content[0].signature


def test_tools_in_parallel_and_their_results(client, gateway):
    gateway.says(THOUGHT + CALL.format("Oslo") + "\n" + CALL.format("Rome"))
    with client.messages.stream(model="demo", max_tokens=500, messages=USER, tools=TOOLS) as stream:
        message = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert message.stop_reason == "tool_use"
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in calls]
    gateway.says(ANSWER)
    talk = [*USER, {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    assert ask(client, messages=talk, tools=TOOLS).content[-1].text == ANSWER


def test_a_stop_sequence_ends_answer_and_engine(client, gateway):
    gateway.says("One. Two. HALT " + "Three. " * 500, fault="stall", fault_after=40)
    message = ask(client, stop_sequences=["HALT"])
    assert (message.content[0].text, message.stop_reason, message.stop_sequence) == (
        "One. Two. ",
        "stop_sequence",
        "HALT",
    )
    gateway.until(lambda: gateway.engine.requests[-1].state in ("aborted", "disconnected"))


def test_errors(client, gateway):
    with pytest.raises(anthropic.NotFoundError):
        ask(client, model="other")
    with pytest.raises(anthropic.BadRequestError) as bad:
        ask(client, max_tokens=0)
    assert bad.value.body["error"]["type"] == "invalid_request_error"
    gateway.says("x", fault="status", fault_status=500)
    with pytest.raises(anthropic.InternalServerError):
        ask(client)
    gateway.says(ANSWER, fault="drop", fault_after=3)
    stream = ask(client, stream=True)
    with pytest.raises(anthropic.APIStatusError, match="broke off"):
        list(stream)


def test_a_client_that_stops_reading_ends_the_engines_request(client, gateway):
    gateway.says("word " * 5000, fault="stall", fault_after=100)
    stream = ask(client, stream=True)
    next(iter(stream))
    stream.close()
    gateway.until(lambda: gateway.engine.requests[-1].state in ("aborted", "disconnected"))
