"""The Responses and Messages routes and `/parse` over HTTP, with the demo's engine between render and derender."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic.types
import openai.types.responses
import pytest
from litestar.testing import TestClient

from derender_server.app import create_app
from derender_server.settings import Settings

TOOLS = {
    "responses": [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}],
    "messages": [{"name": "look_up", "input_schema": {"type": "object", "properties": {}}}],
}
REQUESTS = {
    "responses": {"input": "Look it up.", "tools": TOOLS["responses"]},
    "messages": {
        "messages": [{"role": "user", "content": "Look it up."}],
        "max_tokens": 500,
        "tools": TOOLS["messages"],
    },
}
MODELS = {"responses": openai.types.responses.Response, "messages": anthropic.types.Message}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(model="demo"))) as client:
        yield client


def post(client, path, body, status=200):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.rule("1.5", "1.6")
@pytest.mark.parametrize("api", ["responses", "messages"])
def test_render_generate_derender(client, api):
    request = REQUESTS[api]
    rendered = post(client, f"/v1/{api}/render", request)
    generated = post(client, "/inference/v1/generate", rendered)
    body = {"prompt_token_ids": rendered["token_ids"], f"{api}_request": request}
    answer = post(client, f"/v1/{api}/derender", {**body, "generate_response": generated})
    MODELS[api].model_validate_json(json.dumps(answer), strict=True)
    assert answer["id"] == rendered["request_id"]
    found = answer["output" if api == "responses" else "content"]
    assert found[0]["type"] in ("reasoning", "thinking")
    assert found[-1]["name"] == "look_up"

    choice = generated["choices"][0]
    chunk = {"request_id": rendered["request_id"], "choices": [choice]}
    streamed = post(client, f"/v1/{api}/derender", {**body, "stream": True, "generate_chunk": chunk})
    assert streamed["events"][-1]["type"] in ("response.completed", "message_stop")
    if api == "responses":
        assert streamed["events"][-1]["response"]["output"] == answer["output"]


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_the_request_id_of_the_header(client, api):
    answer = client.post(f"/v1/{api}/render", json=REQUESTS[api], headers={"x-request-id": "mine"})
    assert answer.json()["request_id"] == {"responses": "resp_mine", "messages": "msg_mine"}[api]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/responses/render", {}, "input"),
        ("/v1/messages/render", {"messages": [{"role": "user", "content": "x"}]}, "max_tokens"),
        ("/v1/responses/derender", {}, "generate_response"),
        ("/v1/messages/derender", {"stream": True}, "generate_chunk"),
        ("/v1/messages/derender", {"stream": 1}, "stream"),
        ("/parse", {"chat_request": {}}, "text"),
        (
            "/v1/responses/derender",
            {"generate_response": {"choices": [{"token_ids": ["1"]}]}, "responses_request": {}},
            "generate_response.choices.0.token_ids.0",
        ),
        (
            "/v1/responses/derender",
            {"generate_response": {"choices": [{"token_ids": [1]}]}, "responses_request": {"temperature": "hot"}},
            "responses_request.temperature",
        ),
    ],
)
def test_errors_have_the_shape_of_all_errors(client, path, body, param):
    error = post(client, path, body, status=400)["error"]
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", param, 400)


def test_a_model_that_is_not_served(client):
    assert post(client, "/v1/messages/render", {**REQUESTS["messages"], "model": "x"}, status=404)
    assert post(client, "/parse", {"text": "a", "chat_request": {}, "model": "x"}, status=404)


def test_a_missing_transcript_is_asked_for_over_http(client):
    def derender(text, state=None, **more):
        ids = post(client, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
        chunk = {"request_id": "r", "choices": [{"token_ids": ids}]}
        body = {"stream": True, "generate_chunk": chunk, "stream_state": state, "responses_request": {}}
        return client.post("/v1/responses/derender", json={**body, "prompt_token_ids": [1], **more})

    first = derender("<think>hm").json()
    refused = derender("</think>So", first["stream_state"])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "transcript")
    said = "".join(event.get("delta", "") for event in first["events"])
    assert derender("</think>So", first["stream_state"], transcript={"text": said}).status_code == 200


def test_the_openapi_document_has_the_routes(client):
    document = client.get("/openapi.json").json()
    for path in (
        "/v1/responses/render",
        "/v1/messages/render",
        "/v1/responses/derender",
        "/v1/messages/derender",
        "/parse",
    ):
        operation = document["paths"][path]["post"]
        assert operation["requestBody"]["content"]["application/json"]["schema"]
        assert operation["responses"]["200"]["content"]["application/json"]["schema"]
