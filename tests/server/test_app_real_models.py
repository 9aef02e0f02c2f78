"""Render, a hand-written output, derender: over HTTP, with the tokenizers and chat templates of real models."""

from __future__ import annotations

import json

import pytest
from litestar.testing import TestClient

from derender_server.app import create_app
from derender_server.settings import Settings

pytestmark = pytest.mark.real_tokenizer

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ARGUMENTS = '{"city": "Łódź 🌦"}'

QWEN3_CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
DEEPSEEK_CALL = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    f"```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
LLAMA_CALL = f'{{"name": "get_weather", "parameters": {ARGUMENTS}}}'

MODELS = {
    "qwen3": ("hermes", "qwen3"),
    "deepseek_v3": ("deepseek_v3", "deepseek_v3"),
    "llama3_1": ("llama3_json", None),
}
CASES = [
    ("qwen3", "<think>\nŻółw? 🐢\n</think>\n\nOf course: 3 + 4 = 7 — naïve.<|im_end|>", "Żółw? 🐢", "text", False),
    ("qwen3", f"<think>\nI need the tool.\n</think>\n\n{QWEN3_CALL}<|im_end|>", "I need the tool.", None, True),
    ("qwen3", f"Looking.\n{QWEN3_CALL}<|im_end|>", None, "Looking.", True),
    ("deepseek_v3", "Of course: 3 + 4 = 7 — naïve.<｜end▁of▁sentence｜>", None, "text", False),
    ("deepseek_v3", f"{DEEPSEEK_CALL}<｜end▁of▁sentence｜>", None, None, True),
    ("llama3_1", "Of course: 3 + 4 = 7 — naïve.<|eot_id|>", None, "text", False),
    ("llama3_1", f"{LLAMA_CALL}<|eom_id|>", None, None, True),
]
TEXT = "Of course: 3 + 4 = 7 — naïve."


@pytest.fixture(scope="module")
def clients(real_tokenizer_dir):
    opened = {}

    def client(name):
        if name not in opened:
            tool, reasoning = MODELS[name]
            settings = Settings(
                model=str(real_tokenizer_dir(name)),
                served_model_name=(name,),
                max_model_len=8192,
                tool_call_parser=tool,
                reasoning_parser=reasoning,
                enable_auto_tool_choice=True,
            )
            opened[name] = TestClient(create_app(settings)).__enter__()
        return opened[name]

    yield client
    for one in opened.values():
        one.__exit__(None, None, None)


def post(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(client, ids, base):
    """The folded message and the finish reason of a stream of one token a chunk."""
    state, message, arguments, names = None, {}, {}, {}
    for at, token_id in enumerate(ids):
        finish = "stop" if at == len(ids) - 1 else None
        chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id], "finish_reason": finish}]}
        body = {**base, "stream": True, "generate_chunk": chunk, "stream_state": state}
        answer = post(client, "/v1/chat/completions/derender", body)
        state = answer["stream_state"]
        (choice,) = answer["chunk"]["choices"]
        for key in ("content", "reasoning"):
            message[key] = message.get(key, "") + choice["delta"].get(key, "")
        for entry in choice["delta"].get("tool_calls", []):
            names.setdefault(entry["index"], entry["function"].get("name"))
            arguments[entry["index"]] = arguments.get(entry["index"], "") + entry["function"]["arguments"]
    calls = [(names[index], json.loads(arguments[index])) for index in sorted(names)]
    return message["content"] or None, message["reasoning"] or None, calls, choice["finish_reason"]


@pytest.mark.parametrize(("name", "output", "reasoning", "content", "has_call"), CASES)
def test_a_real_model_from_request_to_answer(clients, name, output, reasoning, content, has_call):
    client = clients(name)
    request = {"model": name, "messages": [{"role": "user", "content": "Weather in Łódź?"}], "tools": [TOOL]}
    rendered = post(client, "/v1/chat/completions/render", request)
    ids = post(client, "/tokenize", {"prompt": output, "add_special_tokens": False})["tokens"]
    base = {"model": name, "prompt_token_ids": rendered["token_ids"], "chat_request": request}
    whole = post(
        client,
        "/v1/chat/completions/derender",
        {**base, "generate_response": {"choices": [{"token_ids": ids, "finish_reason": "stop"}]}},
    )
    (choice,) = whole["choices"]
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in choice["message"].get("tool_calls", [])
    ]
    assert choice["message"]["content"] == (TEXT if content == "text" else content)
    assert choice["message"]["reasoning"] == reasoning
    assert calls == ([("get_weather", json.loads(ARGUMENTS))] if has_call else [])
    assert choice["finish_reason"] == ("tool_calls" if has_call else "stop")
    found = choice["message"]["content"], choice["message"]["reasoning"], calls, choice["finish_reason"]
    assert streamed(client, ids, base) == found
