"""The application over HTTP: every route, and what surrounds them. WIRE.md section 1."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from litestar.testing import TestClient

from derender_server.app import create_app
from derender_server.settings import Settings
from derender_server.wire import responses

PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(Settings(model="demo"))) as client:
        yield client


def ids(client, text):
    return client.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]


def test_importing_the_package_loads_no_web_framework():
    program = "import sys, derender_server; print('litestar' in sys.modules, 'uvicorn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.rule("1.10")
@pytest.mark.parametrize("path", ["/health", "/ping"])
def test_health_is_200_and_empty(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.rule("1.10")
def test_ping_takes_post_too(client):
    assert client.post("/ping").status_code == 200


@pytest.mark.rule("1.10")
def test_version_and_load(client):
    responses.VersionResponse.model_validate(client.get("/version").json())
    assert client.get("/load").json() == {"server_load": 0}


@pytest.mark.rule("1.9")
def test_models_lists_every_served_name():
    with TestClient(create_app(Settings(model="demo", served_model_name=("one", "two")))) as client:
        body = client.get("/v1/models").json()
    responses.ModelList.model_validate(body)
    assert [card["id"] for card in body["data"]] == ["one", "two"]
    assert {card["root"] for card in body["data"]} == {"demo"}
    assert all(card["max_model_len"] == 32768 for card in body["data"])


@pytest.mark.rule("1.1", "1.3")
def test_render_generate_derender_over_http(client):
    """The whole round: the demo is on with its parsers, its engine and automatic tool choice."""
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
    request = {"messages": [{"role": "user", "content": "Look it up."}], "tools": [tool]}
    rendered = client.post("/v1/chat/completions/render", json=request)
    assert rendered.status_code == 200
    generated = client.post("/inference/v1/generate", json=rendered.json())
    assert generated.status_code == 200
    body = {
        "model": "demo",
        "generate_response": generated.json(),
        "prompt_token_ids": rendered.json()["token_ids"],
        "prompt_tokens": len(rendered.json()["token_ids"]),
        "chat_request": request,
    }
    answer = client.post("/v1/chat/completions/derender", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    completion = responses.ChatCompletion.model_validate(answer.json())
    assert completion.id == rendered.json()["request_id"]
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.choices[0].message.tool_calls[0].function.name == "look_up"
    assert completion.choices[0].message.reasoning


def test_what_render_says_of_the_request_is_enough_for_derender(client):
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
    named = {"type": "function", "function": {"name": "look_up"}}
    request = {"messages": [{"role": "user", "content": "Look it up."}], "tools": [tool], "tool_choice": named}
    rendered = client.post("/v1/chat/completions/render", json=request).json()
    generated = client.post("/inference/v1/generate", json=rendered).json()
    body = {"generate_response": generated, "prompt_token_ids": rendered["token_ids"]}
    answers = [
        client.post("/v1/chat/completions/derender", json={**body, "chat_request": view}).json()["choices"]
        for view in (request, rendered["parse_context"])
    ]
    assert answers[0] == answers[1]
    assert answers[0][0]["finish_reason"] == "stop"
    assert answers[0][0]["message"]["tool_calls"]


@pytest.mark.rule("1.3", "1.12")
def test_a_streamed_chunk_is_answered_as_json(client):
    body = {
        "stream": True,
        "generate_chunk": {"request_id": "r", "choices": [{"index": 0, "token_ids": ids(client, "<think>well")}]},
        "prompt_token_ids": ids(client, PROMPT),
        "chat_request": {},
    }
    answer = client.post("/v1/chat/completions/derender", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    checked = responses.DerenderChatStreamResponse.model_validate(answer.json())
    assert checked.chunk.choices[0].delta.reasoning == "well"
    last = {
        "stream": True,
        "generate_chunk": {"choices": [{"token_ids": [], "finish_reason": "stop"}]},
        "stream_state": answer.json()["stream_state"],
        "chat_request": {},
    }
    chunk = client.post("/v1/chat/completions/derender", json=last).json()["chunk"]
    assert chunk["choices"][0]["finish_reason"] == "stop"


@pytest.mark.rule("1.2", "1.4")
def test_completions_over_http(client):
    rendered = client.post("/v1/completions/render", json={"prompt": ["One", "Two"], "max_tokens": 4}).json()
    assert [one["request_id"][-2:] for one in rendered] == ["-0", "-1"]
    generated = [client.post("/inference/v1/generate", json=one).json() for one in rendered]
    body = {"generate_responses": generated, "prompt_token_ids": [one["token_ids"] for one in rendered]}
    answer = client.post("/v1/completions/derender", json=body)
    assert answer.status_code == 200
    checked = responses.Completion.model_validate(answer.json())
    assert [choice.index for choice in checked.choices] == [0, 1]
    chunk = {"stream": True, "generate_chunk": {"choices": [{"token_ids": ids(client, "Hi")}]}}
    streamed = client.post("/v1/completions/derender", json=chunk).json()
    checked_chunk = responses.DerenderCompletionStreamResponse.model_validate(streamed).chunk
    assert checked_chunk.choices[0].text == "Hi"


@pytest.mark.rule("1.8")
def test_tokenize_and_detokenize(client):
    body = client.post("/tokenize", json={"prompt": "Hello there", "return_token_strs": True}).json()
    responses.TokenizeResponse.model_validate(body)
    assert body["count"] == len(body["tokens"])
    assert "".join(body["token_strs"]) == "Hello there"
    assert client.post("/detokenize", json={"tokens": body["tokens"]}).json() == {"prompt": "Hello there"}
    chat = client.post("/tokenize", json={"messages": [{"role": "user", "content": "hi"}]}).json()
    assert chat["count"] > 1


@pytest.mark.rule("3.2")
def test_the_request_id_header_names_the_request(client):
    request = {"messages": [{"role": "user", "content": "hi"}]}
    rendered = client.post("/v1/chat/completions/render", json=request, headers={"X-Request-Id": "abc"}).json()
    assert rendered["request_id"] == "chatcmpl-abc"


def test_long_bodies_are_answered_as_short_ones_are(client):
    """Long work leaves the event loop; nothing else may differ."""
    text = "The quick brown fox. " * 20
    token_ids = ids(client, text)
    for times in (1, 100):
        body = {
            "generate_response": {"choices": [{"token_ids": token_ids * times}]},
            "prompt_token_ids": ids(client, PROMPT),
            "chat_request": {},
        }
        message = client.post("/v1/chat/completions/derender", json=body).json()["choices"][0]["message"]
        assert message["content"] == text * times
    wrong = {**body, "generate_response": {"choices": [{"token_ids": [*token_ids * 100, -1]}]}}
    assert client.post("/v1/chat/completions/derender", json=wrong).status_code == 400


def test_the_engine_is_mounted_for_the_demo_only(small_model):
    with TestClient(create_app(Settings(model=str(small_model())))) as client:
        assert client.post("/inference/v1/generate", json={}).status_code == 404
        assert client.get("/health").status_code == 200


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("2.12")
def test_with_api_keys_every_route_but_health_needs_one():
    with TestClient(create_app(Settings(model="demo", api_key=("one", "two")))) as client:
        for path in ("/v1/models", "/version", "/load", "/ping", "/openapi.json", "/docs"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer three"}).status_code == 401
            for key in ("one", "two"):
                assert client.get(path, headers={"authorization": f"Bearer {key}"}).status_code == 200
        answer = client.post("/v1/chat/completions/derender", json={})
        assert answer.json()["error"]["code"] == 401
        assert client.get("/health").status_code == 200


# -- documents ---------------------------------------------------------------------------------------------------------


def test_the_openapi_document_has_the_schemas_of_every_body(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    operation = document["paths"]["/v1/chat/completions/derender"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    named = [one["$ref"].rpartition("/")[2] for one in body]
    assert named == ["DerenderChatRequest", "DerenderChatStreamRequest"]
    assert schemas["DerenderChatStreamRequest"]["required"] == ["generate_chunk", "stream"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], path
            assert "4XX" in operation["responses"]
            if method == "post" and path != "/ping":
                assert operation["requestBody"], path
    text = json.dumps(document)
    for reference in set(re.findall(r"#/components/schemas/([\w.-]+)", text)):
        assert reference in schemas


def test_the_page_at_docs_needs_nothing_from_elsewhere(client):
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "openapi.json" in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text
