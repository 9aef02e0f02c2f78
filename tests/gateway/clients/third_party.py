"""What LangChain's and LiteLLM's users write, against the gateway whose URL is the argument. Prints what came, as JSON.

Run by ``test_third_party`` in an environment of its own: the two pin what other tests need newer.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm
import pydantic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

QUESTION = "What is the weather in Oslo?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


class Weather(pydantic.BaseModel):
    """The weather."""

    city: str
    degrees: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def says(text: str) -> dict[str, Any]:
    """What the scripted engine is told to answer to a request."""
    return {"vllm_xargs": {"demo_engine": {"text": text}}}


def langchain(url: str, answer: str, call: str, weather: str) -> dict[str, Any]:
    """LangChain's chat model."""

    def model(text: str) -> ChatOpenAI:
        return ChatOpenAI(model="demo", base_url=url, api_key="none", extra_body=says(text), max_retries=0)

    with_tools = model(call).bind_tools([get_weather])
    streamed = None
    for chunk in with_tools.stream(QUESTION):
        streamed = chunk if streamed is None else streamed + chunk
    return {
        "plain": model(answer).invoke(QUESTION).content,
        "streamed": "".join(str(chunk.content) for chunk in model(answer).stream(QUESTION)),
        "calls": [one["args"] for one in with_tools.invoke(QUESTION).tool_calls],
        "streamed calls": [one["args"] for one in getattr(streamed, "tool_calls", [])],
        "structured": model(weather)
        .with_structured_output(Weather, method="json_schema")
        .invoke(QUESTION)
        .model_dump(),
    }


def lite(url: str, answer: str, call: str) -> dict[str, Any]:
    """LiteLLM's ``completion``."""

    def ask(text: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        given = {"model": "openai/demo", "api_base": url, "api_key": "none", "extra_body": says(text), "num_retries": 0}
        return litellm.completion(messages=messages, **given, **more)

    chunks = list(ask(call, tools=TOOLS, stream=True))
    whole = litellm.stream_chunk_builder(chunks)
    return {
        "plain": ask(answer).choices[0].message.content,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in ask(answer, stream=True)),
        "calls": [json.loads(one.function.arguments) for one in ask(call, tools=TOOLS).choices[0].message.tool_calls],
        "streamed calls": [json.loads(one.function.arguments) for one in whole.choices[0].message.tool_calls],
    }


if __name__ == "__main__":
    url, answer, call, weather = sys.argv[1:]
    print(json.dumps({"langchain": langchain(url, answer, call, weather), "litellm": lite(url, answer, call)}))
