"""Errors over HTTP: one shape for all of them. WIRE.md section 2."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest
from litestar.testing import TestClient

from derender_core import ParserError
from derender_core.errors import InputError, StateError, TemplateError, TokenIdError
from derender_server.app import create_app
from derender_server.errors import ERROR_TYPES, OverloadedError, describe
from derender_server.model import UnknownModelError
from derender_server.settings import Settings

CHAT = "/v1/chat/completions/derender"
POSTS = [
    CHAT,
    "/v1/completions/derender",
    "/v1/chat/completions/render",
    "/v1/completions/render",
    "/tokenize",
    "/detokenize",
]


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(Settings(model="demo", body_limit=100_000)), raise_server_exceptions=False) as client:
        yield client


def checked(answer, status, param=None):
    error = answer.json()["error"]
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"], error["param"]) == (status, ERROR_TYPES[status], param)
    assert error["message"]
    assert "Traceback" not in answer.text
    return error["message"]


@pytest.mark.rule("2.1", "2.4")
def test_a_route_that_is_not_there_is_404(client):
    checked(client.get("/v1/nothing"), 404)
    checked(client.post("/v1/nothing", json={}), 404)


def test_another_method_is_405(client):
    checked(client.get(CHAT), 405)


@pytest.mark.rule("2.3")
def test_an_unknown_model_is_404_and_names_the_valid_ones(client):
    body = {"model": "gpt-2", "generate_response": {"choices": [{"token_ids": [1]}]}, "chat_request": {}}
    message = checked(client.post(CHAT, json=body), 404, "model")
    assert message == "The model `gpt-2` does not exist. Valid names: `demo`."


@pytest.mark.rule("2.2", "8.4")
@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a":' * 20_000,
        b"[" * 99_000,
        b"null",
        b"[]",
        b'"text"',
        b"5",
    ],
)
def test_bodies_that_are_no_json_object_are_clean_400s(client, path, body):
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestError"


@pytest.mark.rule("8.4")
def test_what_is_passed_through_may_be_nested_to_any_depth_without_a_500(client):
    for depth in [*range(5, 1000, 45), *range(900, 1010)]:
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        body = b'{"generate_response": {"choices": [{"token_ids": [1]}], "kv_transfer_params": %s}, "chat_request": {}}'
        answer = client.post(CHAT, content=body % nested, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400)


@pytest.mark.rule("2.5")
@pytest.mark.parametrize("path", POSTS)
def test_a_body_over_the_limit_is_413(client, path):
    checked(client.post(path, content=b" " * 100_001, headers={"content-type": "application/json"}), 413)


@pytest.mark.rule("2.6")
@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_is_not_declared_as_json_is_415(client, path, kind):
    checked(client.post(path, content=b"{}", headers={"content-type": kind}), 415)


def test_json_media_types_with_parameters_and_suffixes_are_json(client):
    for kind in ("application/json; charset=utf-8", "application/vnd.api+json"):
        answer = client.post("/detokenize", content=b'{"tokens": [1]}', headers={"content-type": kind})
        assert answer.status_code == 200


@pytest.mark.rule("2.2", "2.10")
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {}, "generate_response"),
        (CHAT, {"stream": True}, "generate_chunk"),
        (CHAT, {"stream": "x"}, "stream"),
        (CHAT, {"generate_response": {"choices": [{"token_ids": ["a"]}]}}, "generate_response.choices.0.token_ids.0"),
        (
            CHAT,
            {"generate_response": {"choices": [{"token_ids": [4096]}]}, "chat_request": {}},
            "generate_response.choices.0.token_ids.0",
        ),
        (CHAT, {"generate_response": {"choices": [{"token_ids": [1]}]}}, "chat_request"),
        ("/v1/completions/derender", {"generate_responses": []}, "generate_responses"),
        ("/v1/completions/render", {}, "prompt"),
        ("/detokenize", {"tokens": [-1]}, "tokens.0"),
        ("/detokenize", {"tokens": [9999]}, "tokens.0"),
    ],
)
def test_param_is_the_dotted_path_of_the_first_wrong_field(client, path, body, param):
    checked(client.post(path, json=body), 400, param)


@pytest.mark.rule("2.11")
def test_many_wrong_fields_of_a_union_body_give_the_error_of_one_shape(client):
    body = {"stream": True, "generate_chunk": {"choices": 5}, "generate_response": 5}
    message = checked(client.post(CHAT, json=body), 400, "generate_chunk.choices")
    assert "generate_response" not in message


@pytest.mark.rule("2.7")
def test_our_own_bug_shows_nothing_of_itself_and_is_logged(client, monkeypatch, caplog):
    def broken(_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(client.app.state.services, "detokenize", broken)
    with caplog.at_level(logging.ERROR, logger="derender"):
        answer = client.post("/detokenize", json={"tokens": [1]})
    checked(answer, 500)
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.rule("2.8")
def test_a_failing_parser_is_named(client, monkeypatch, caplog):
    def broken(_):
        raise ParserError("tool parser 'x' of acme raised KeyError: 'y'")

    monkeypatch.setattr(client.app.state.services, "detokenize", broken)
    with caplog.at_level(logging.ERROR, logger="derender"):
        message = checked(client.post("/detokenize", json={"tokens": [1]}), 500)
    assert "tool parser 'x' of acme" in message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("x", "a"), 400),
        (StateError("x", "a"), 400),
        (TokenIdError("x", "a"), 400),
        (TemplateError("x", "a"), 400),
        (UnknownModelError("x", "a"), 404),
        (ParserError("x"), 500),
        (KeyError("x"), 500),
        (OverloadedError("x"), 503),
    ],
)
def test_every_exception_has_its_status(error, status):
    found, message, param = describe(error)
    assert (found, param) == (status, getattr(error, "param", None))
    assert message


@pytest.mark.rule("2.9")
def test_too_much_waiting_work_is_503():
    from derender_server.work import Work

    work = Work(1)
    work._waiting = work._limit
    with pytest.raises(OverloadedError, match="Try again"):
        asyncio.run(work.run(len, b"xx", 1))
    assert asyncio.run(work.run(len, b"x", 1)) == 1
    assert work.active == 0
    work.close()


def test_error_bodies_are_json_whatever_the_message():
    from derender_server.errors import error_body

    assert msgspec.json.decode(msgspec.json.encode(error_body(400, "é \x00", None)))["error"]["message"] == "é \x00"
