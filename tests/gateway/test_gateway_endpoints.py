"""The gateway's routes: when they are there, and what surrounds them."""

from __future__ import annotations

import json

import pytest
from litestar.testing import TestClient

from derender_server.access_log import AccessLog
from derender_server.app import create_app
from derender_server.settings import Settings

pytestmark = pytest.mark.anyio

ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
MESSAGE = CHAT | {"max_tokens": 20}


@pytest.mark.parametrize("route", ROUTES)
def test_without_engines_there_are_none(route):
    with TestClient(create_app(Settings(model="demo"))) as client:
        assert client.post(route, json=CHAT).status_code == 404
        assert route not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize("route", ROUTES)
async def test_they_are_documented_with_their_events(serve, route):
    async with serve() as served:
        call = await served.call("/openapi.json", b"", method="GET").end()
    operation = call.json["paths"][route]["post"]
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert operation["requestBody"]["required"] is True


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"x-api-key": "wrong"}, 401),
        ({"authorization": "Bearer secret"}, 400),
        ({"x-api-key": "secret"}, 400),
    ],
)
async def test_keys_come_as_openais_or_as_anthropics_clients_send_them(serve, route, headers, status):
    async with serve(api_key=("secret",)) as served:
        call = await served.post(route, b"{}", **headers)
    assert call.status == status
    if status == 401 and route == "/v1/messages":
        assert (call.json["type"], call.json["error"]["type"]) == ("error", "authentication_error")


async def test_a_body_over_the_limit(serve):
    async with serve(body_limit=100) as served:
        chat = await served.post("/v1/chat/completions", b" " * 101)
        message = await served.post("/v1/messages", b" " * 101)
    assert (chat.status, chat.json["error"]["type"]) == (413, "PayloadTooLargeError")
    assert (message.status, message.json["error"]["type"]) == (413, "request_too_large")


async def test_a_body_of_another_kind(serve):
    async with serve() as served:
        call = await served.post("/v1/messages", b"hi", **{"content-type": "text/plain"})
    assert call.status == 415


@pytest.mark.parametrize("stream", [False, True])
async def test_each_request_has_a_line_in_the_log(serve, stream, tmp_path):
    with (tmp_path / "log").open("w") as file:
        log = AccessLog(file)
        async with serve(access_log=log) as served:
            served.engines.play(served.chunks("Hello") if stream else served.response("Hello"))
            await served.post("/v1/messages", MESSAGE | {"stream": stream}, **{"x-request-id": "r1"})
    (line,) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (line["route"], line["status"], line["request_id"]) == ("/v1/messages", 200, "r1")


@pytest.mark.parametrize(
    ("route", "body", "wanted"),
    [
        ("/v1/chat/completions", CHAT, ["chatcmpl-r1"]),
        ("/v1/completions", {"prompt": ["a", "b"]}, ["cmpl-r1-0", "cmpl-r1-1"]),
        ("/v1/responses", {"input": "hi"}, ["resp_r1"]),
        ("/v1/messages", MESSAGE, ["msg_r1"]),
        ("/v1/chat/completions", CHAT | {"request_id": "own"}, ["chatcmpl-own"]),
    ],
)
async def test_the_requests_id_reaches_the_engine_and_the_answer(serve, route, body, wanted):
    async with serve() as served:
        served.engines.play(served.response("Hello"), served.response("Hello"))
        call = await served.post(route, body, **{"x-request-id": "r1"})
        assert [request.request_id for request in served.engines.requests] == wanted
    assert call.json["id"] == wanted[0]
    assert call.headers["x-request-id"] == "r1"


async def test_without_an_id_the_log_the_answer_and_the_engine_agree_on_one(serve):
    async with serve() as served:
        served.engines.play(served.response("Hello"))
        call = await served.post("/v1/chat/completions", CHAT)
    assert call.json["id"] == "chatcmpl-" + call.headers["x-request-id"]


async def test_whole_answers_are_counted(serve):
    async with serve() as served:
        served.engines.play(served.response("Hello"))
        await served.post("/v1/chat/completions", CHAT)
        count = len(served.ids("Hello"))
        text, _ = served.app.state.services.metrics.text("")
    assert f'derender_output_tokens_total{{api="chat"}} {float(count)}'.encode() in text
    assert b'derender_prompt_tokens_total{api="chat"} 10.0' in text
