"""Who may do what: keys on every route, and templates that come with requests. Issue 3, item 9."""

from __future__ import annotations

import pytest
from litestar.testing import TestClient

from derender_server.app import create_app
from derender_server.settings import Settings

RENDER = "/v1/chat/completions/render"
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def locked():
    with TestClient(create_app(Settings(model="demo", api_key=("secret",)))) as client:
        yield client


def operations(client):
    for route in client.app.routes:
        for method in sorted(route.methods - {"OPTIONS"}):
            yield method, route.path


@pytest.mark.rule("2.12")
def test_every_operation_but_the_probes_needs_a_key_before_its_body_is_looked_at(locked):
    found = dict.fromkeys(operations(locked))
    assert len(found) > 20
    for method, path in found:
        for header in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "secret"},
            {"authorization": "Basic secret"},
        ):
            answer = locked.request(method, path, content=b"{", headers={"content-type": "application/json", **header})
            if path in ("/health", "/ready"):
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, (method, path)
            assert answer.json()["error"]["type"] == "AuthenticationError"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert locked.request(method, path, headers={"authorization": "Bearer secret"}).status_code != 401


@pytest.mark.rule("2.12")
@pytest.mark.parametrize(
    "header", ["Bearer sécret", "Bearer " + "x" * 10_000, "", "Bearer", "Bearer  secret", "Token secret"]
)
def test_a_header_of_any_kind_is_a_key_or_a_401(locked, header):
    answer = locked.get("/version", headers={"authorization": header.encode("utf-8")})
    assert answer.status_code == 401
    assert locked.get("/version", headers={"authorization": "bearer secret"}).status_code == 200


@pytest.fixture(scope="module", params=[False, True], ids=["not trusted", "trusted"])
def rendering(request):
    with TestClient(create_app(Settings(model="demo", trust_request_chat_template=request.param))) as client:
        yield client, request.param


@pytest.mark.rule("8.8")
def test_a_requests_template_is_refused_unless_it_is_trusted(rendering):
    client, trusted = rendering
    answer = client.post(RENDER, json={"messages": HI, "chat_template": "{{ messages[0].content }}, it said"})
    if trusted:
        assert answer.status_code == 200
        text = client.post("/detokenize", json={"tokens": answer.json()["token_ids"]}).json()["prompt"]
        assert text == "hi, it said"
    else:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "chat_template"
        assert "--trust-request-chat-template" in answer.json()["error"]["message"]


@pytest.mark.rule("8.8")
@pytest.mark.parametrize("name", ["chat_template", "messages", "tools"])
def test_template_arguments_bring_in_no_template(rendering, name):
    client, _ = rendering
    answer = client.post(RENDER, json={"messages": HI, "chat_template_kwargs": {name: "{{ 1 }}"}})
    assert answer.status_code == 400


@pytest.mark.rule("8.7")
def test_what_messages_say_is_never_run_as_a_template(rendering):
    client, _ = rendering
    text = "{{ 7 * 191 }}{% raw %}{{ messages.__class__ }}"
    answer = client.post(RENDER, json={"messages": [{"role": "user", "content": text}]})
    shown = client.post("/detokenize", json={"tokens": answer.json()["token_ids"]}).json()["prompt"]
    assert text in shown
    assert "1337" not in shown


@pytest.mark.rule("8.7")
@pytest.mark.parametrize(
    "template",
    [
        "{% include '/etc/hostname' %}",
        "{% extends '/etc/hostname' %}",
        "{% import 'os' as os %}{{ os.getcwd() }}",
        "{{ open('/etc/hostname').read() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.getcwd() }}",
        "{{ messages[0].__class__.__init__.__globals__ }}",
        "{{ raise_exception.__globals__ }}{{ strftime_now.__globals__['os'].getcwd() }}",
    ],
)
def test_even_a_trusted_template_reaches_neither_files_nor_the_interpreter(rendering, template):
    client, _ = rendering
    answer = client.post(RENDER, json={"messages": HI, "chat_template": template})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestError"
