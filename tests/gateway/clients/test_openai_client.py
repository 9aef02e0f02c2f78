"""OpenAI's own client against the gateway: chat completions, completions and Responses."""

from __future__ import annotations

import json

import openai
import pydantic
import pytest

from tests.gateway.clients.conftest import CALL, THOUGHT

USER = [{"role": "user", "content": "What is the weather in Oslo?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
ANSWER = "Sunny, and 21 degrees – ☀️."


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def chat(client, **fields):
    return client.chat.completions.create(model="demo", messages=USER, **fields)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["demo"]


def test_a_plain_answer(client, gateway):
    gateway.says(THOUGHT + ANSWER)
    answer = chat(client)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].message.reasoning == "Hm."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens_details.reasoning_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("tokens_per_chunk", [1, 5, 1000])
def test_a_streamed_answer(client, gateway, tokens_per_chunk):
    gateway.says(THOUGHT + ANSWER, tokens_per_chunk=tokens_per_chunk)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == ANSWER
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == "Hm."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert [chunk.usage is not None for chunk in chunks].count(True) == 1
    assert chunks[-1].usage.completion_tokens > 10
    assert len({chunk.id for chunk in chunks}) == 1


def test_tools_in_parallel_and_their_results(client, gateway):
    gateway.says(THOUGHT + CALL.format("Oslo") + "\n" + CALL.format("Rome"))
    message = chat(client, tools=TOOLS).choices[0].message
    assert [json.loads(call.function.arguments)["city"] for call in message.tool_calls] == ["Oslo", "Rome"]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"sunny in {number}"}
        for number, call in enumerate(message.tool_calls)
    ]
    gateway.says(ANSWER)
    talk = [*USER, message.model_dump(exclude_none=True), *results]
    answer = client.chat.completions.create(model="demo", messages=talk, tools=TOOLS)
    assert answer.choices[0].message.content == ANSWER
    prompt = gateway.last["token_ids"]
    assert len(prompt) > 100, "the results are in it"


def test_streamed_tools_by_the_clients_own_accumulation(client, gateway):
    gateway.says(THOUGHT + "Let me see.\n" + CALL.format("Oslo") + "\n" + CALL.format("Rome"))
    with client.chat.completions.stream(model="demo", messages=USER, tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    message = completion.choices[0].message
    assert message.content == "Let me see."
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert completion.choices[0].finish_reason == "tool_calls"
    assert len({call.id for call in message.tool_calls}) == 2


def test_structured_outputs(client, gateway):
    class Weather(pydantic.BaseModel):
        city: str
        degrees: int

    gateway.says('{"city": "Oslo", "degrees": 21}')
    parsed = client.chat.completions.parse(model="demo", messages=USER, response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(city="Oslo", degrees=21)
    schema = gateway.last["sampling_params"]["structured_outputs"]["json"]
    assert schema["properties"]["degrees"]["type"] == "integer"


def test_several_choices_interleave(client, gateway):
    gateway.says(["first answer", "the second one"])
    answer = chat(client, n=2)
    assert [choice.message.content for choice in answer.choices] == ["first answer", "the second one"]
    texts = {0: "", 1: ""}
    for chunk in chat(client, n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "first answer", 1: "the second one"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_answer_and_engine(client, gateway, stream):
    gateway.says("One. Two. HALT " + "Three. " * 500, fault="stall", fault_after=40)
    if stream:
        chunks = list(chat(client, stop=["HALT"], stream=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        choice = chat(client, stop="HALT").choices[0]
        text, reason = choice.message.content, choice.finish_reason
    assert (text, reason) == ("One. Two. ", "stop")
    gateway.until(lambda: gateway.engine.requests[-1].state in ("aborted", "disconnected"))


def test_logprobs(client, gateway):
    gateway.says(ANSWER)
    choice = chat(client, logprobs=True, top_logprobs=2).choices[0]
    tokens = choice.logprobs.content
    raw = b"".join(bytes(token.bytes) for token in tokens)
    assert raw.startswith(ANSWER.encode())
    assert all(len(token.top_logprobs) == 2 for token in tokens)


def test_text_completions(client, gateway):
    gateway.says(" there was an end.")
    answer = client.completions.create(model="demo", prompt=["Once", "Twice"], max_tokens=50)
    assert [choice.text for choice in answer.choices] == [" there was an end."] * 2
    chunks = list(client.completions.create(model="demo", prompt="Once", max_tokens=50, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == " there was an end."


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_before_an_answer(client, gateway):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=USER)
    with pytest.raises(openai.BadRequestError) as bad:
        chat(client, temperature="hot")
    assert bad.value.param == "temperature"
    gateway.says("x", fault="status", fault_status=500)
    with pytest.raises(openai.InternalServerError) as broken:
        chat(client)
    assert broken.value.status_code == 502
    gateway.says("x", fault="status", fault_status=429)
    with pytest.raises(openai.RateLimitError):
        chat(client)


def test_an_error_in_a_stream(client, gateway):
    gateway.says(ANSWER, fault="drop", fault_after=3)
    seen = []
    stream = chat(client, stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        seen.extend(stream)
    assert len(seen) == 3
    events = list(client.responses.create(model="demo", input="hi", stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    assert "broke off" in events[-1].response.error.message


def test_a_client_that_stops_reading_ends_the_engines_request(client, gateway):
    gateway.says("word " * 5000, fault="stall", fault_after=100)
    stream = chat(client, stream=True)
    next(iter(stream))
    stream.close()
    gateway.until(lambda: gateway.engine.requests[-1].state in ("aborted", "disconnected"))


# -- Responses ---------------------------------------------------------------------------------------------------------

FUNCTION = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}


def test_responses(client, gateway):
    gateway.says(THOUGHT + ANSWER)
    response = client.responses.create(model="demo", input="What is the weather?")
    assert response.output_text == ANSWER
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_streamed_responses_with_tools(client, gateway):
    gateway.says(THOUGHT + CALL.format("Oslo"))
    with client.responses.stream(model="demo", input="What is the weather?", tools=[FUNCTION]) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert "response.function_call_arguments.delta" in kinds
    call = next(item for item in response.output if item.type == "function_call")
    assert json.loads(call.arguments) == {"city": "Oslo"}
    gateway.says(ANSWER)
    talk = [
        {"role": "user", "content": "What is the weather?"},
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
    ]
    assert client.responses.create(model="demo", input=talk, tools=[FUNCTION]).output_text == ANSWER
