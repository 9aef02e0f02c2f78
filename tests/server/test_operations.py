"""What operators see: metrics, load, readiness, request ids and traces. Issue 3, item 10."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys

import pytest
from litestar.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families

from derender_core import ParserError
from derender_server.access_log import AccessLog
from derender_server.app import create_app
from derender_server.gate import LONGEST_ID
from derender_server.settings import Settings
from derender_server.tracing import trace_requests

CHAT = "/v1/chat/completions/derender"
PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
REQUESTS = {
    "chat": {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]},
    "responses": {"input": "hi", "tools": [{"type": "function", **TOOL["function"]}]},
    "messages": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@pytest.fixture
def client():
    with TestClient(create_app(Settings(model="demo")), raise_server_exceptions=False) as client:
        yield client


def ids(client, text):
    return client.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]


def samples(client):
    """The value of every sample, by name and the values of its labels, which stand in the order of their names."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


# -- metrics -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("1.11", "9.1")
def test_requests_errors_and_latencies_are_counted_by_route(client):
    client.get("/version")
    client.post("/detokenize", json={"tokens": [1]})
    client.post("/detokenize", json={"tokens": [-1]})
    client.post("/detokenize", json={"tokens": [-2]})
    client.get("/no/such/path")
    client.get(CHAT)
    found = samples(client)
    assert found["derender_requests_total", "/version", "200"] == 1
    assert found["derender_requests_total", "/detokenize", "200"] == 1
    assert found["derender_requests_total", "/detokenize", "400"] == 2
    assert found["derender_errors_total", "/detokenize", "BadRequestError"] == 2
    assert found["derender_requests_total", "other", "404"] == 1
    assert found["derender_errors_total", "other", "NotFoundError"] == 1
    assert found["derender_errors_total", CHAT, "MethodNotAllowedError"] == 1
    assert found["derender_request_duration_seconds_count", "/detokenize"] == 3
    assert found["derender_request_duration_seconds_bucket", "+Inf", "/detokenize"] == 3
    assert found["derender_request_duration_seconds_sum", "/detokenize"] > 0
    assert found["derender_requests_in_progress",] == 1
    assert found["process_resident_memory_bytes",] > 0


def test_paths_that_are_not_served_make_one_series(client):
    for at in range(20):
        client.get(f"/path/{at}")
    assert samples(client)["derender_requests_total", "other", "404"] == 20
    assert not any("/path/" in part for key in samples(client) for part in key)


@pytest.mark.rule("9.1")
@pytest.mark.parametrize("api", list(PATHS))
def test_a_one_shot_answer_counts_tokens_calls_and_reasoning(client, api):
    output, prompt = ids(client, f"<think>well</think>{CALL}"), ids(client, PROMPT)
    body = {
        "generate_response": {"choices": [{"token_ids": output}]},
        "prompt_token_ids": prompt,
        "prompt_tokens": len(prompt),
        f"{api}_request": REQUESTS[api],
    }
    assert client.post(f"{PATHS[api]}/derender", json=body).status_code == 200
    found = samples(client)
    assert found["derender_prompt_tokens_total", api] == len(prompt)
    assert found["derender_output_tokens_total", api] == len(output)
    assert found["derender_tool_calls_total", "hermes"] == 1
    if api != "messages":  # which does not tell them in its answers
        assert 0 < found["derender_reasoning_tokens_total", "qwen3"] < len(output)
    assert found["derender_stream_chunks_total", api] == 0


@pytest.mark.rule("9.1")
@pytest.mark.parametrize("api", list(PATHS))
def test_a_stream_counts_each_chunk_token_and_call_once(client, api):
    output, prompt = ids(client, f"<think>well, so be it</think>{CALL}\n{CALL}"), ids(client, PROMPT)
    state, transcript = None, {"output": [], "text": ""}
    for at in range(0, len(output), 3):
        piece = output[at : at + 3]
        body = {
            "stream": True,
            "generate_chunk": {"choices": [{"token_ids": piece}]},
            "stream_state": state,
            "prompt_token_ids": prompt,
            f"{api}_request": REQUESTS[api],
            "transcript": transcript,
        }
        answer = client.post(f"{PATHS[api]}/derender", json=body)
        assert answer.status_code == 200, answer.text
        state = answer.json()["stream_state"]
        for event in answer.json().get("events", ()):  # of Responses, which want them back
            if event["type"].endswith(".delta"):
                transcript = {**transcript, "text": transcript["text"] + event["delta"]}
            elif event["type"] == "response.output_item.done":
                transcript = {"output": [*transcript["output"], event["item"]], "text": ""}
    found = samples(client)
    assert found["derender_stream_chunks_total", api] == -(-len(output) // 3)
    assert found["derender_prompt_tokens_total", api] == len(prompt)
    assert found["derender_output_tokens_total", api] == len(output)
    assert found["derender_tool_calls_total", "hermes"] == 2
    assert 0 < found["derender_reasoning_tokens_total", "qwen3"] == state["q"] < len(output)


def test_completions_and_rendering_count_tokens(client):
    one, two = ids(client, "One two three"), ids(client, "Four")
    body = {"generate_responses": [{"choices": [{"token_ids": one}, {"token_ids": two}]}], "prompt_tokens": [5]}
    client.post("/v1/completions/derender", json=body)
    rendered = client.post("/v1/completions/render", json={"prompt": ["a", "b c"]}).json()
    chat = client.post("/v1/chat/completions/render", json=REQUESTS["chat"]).json()
    found = samples(client)
    assert found["derender_output_tokens_total", "completions"] == len(one) + len(two)
    assert found["derender_prompt_tokens_total", "completions"] == 5
    assert found["derender_rendered_tokens_total", "completions"] == sum(len(one["token_ids"]) for one in rendered)
    assert found["derender_rendered_tokens_total", "chat"] == len(chat["token_ids"])


def test_counts_that_a_client_invents_do_not_ruin_the_sums(client):
    for huge in (10**30, 10**400):
        body = {"generate_response": {"choices": [{"token_ids": [300]}]}, "prompt_tokens": huge, "chat_request": {}}
        text = json.dumps(body)
        answer = client.post(CHAT, content=text, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400)
    assert samples(client)["derender_prompt_tokens_total", "chat"] <= 2 * 2**31


@pytest.mark.rule("9.1")
def test_failures_of_parsers_are_counted_by_hook(client, monkeypatch):
    parser = client.app.state.services.metrics._parsers[0]

    def broken(_):
        parser.count_failure("derender_parse_delta")
        raise ParserError("tool parser 'hermes' of derender raised KeyError")

    monkeypatch.setattr(client.app.state.services, "detokenize", broken)
    assert client.post("/detokenize", json={"tokens": [1]}).status_code == 500
    assert client.post("/detokenize", json={"tokens": [1]}).status_code == 500
    found = samples(client)
    assert found["derender_parser_errors_total", "derender_parse_delta", "hermes", "tool"] == 2
    assert found["derender_errors_total", "/detokenize", "InternalServerError"] == 2
    parser.count_failure("timeout")
    assert samples(client)["derender_parser_errors_total", "timeout", "hermes", "tool"] == 1


def test_metrics_are_given_as_openmetrics_to_who_asks_for_it(client):
    answer = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_two_applications_in_a_process_count_apart(client):
    with TestClient(create_app(Settings(model="demo"))) as other:
        other.get("/version")
        assert samples(other)["derender_requests_total", "/version", "200"] == 1
    assert ("derender_requests_total", "/version", "200") not in samples(client)


# -- health and load ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("9.6")
def test_ready_is_200_while_requests_are_taken(client):
    answer = client.get("/ready")
    assert (answer.status_code, answer.content) == (200, b"")
    assert client.get("/load").json() == {"server_load": 0}


@pytest.mark.rule("9.6")
def test_a_process_whose_threads_hang_in_parsers_lives_and_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(type(client.app.state.work), "is_stuck", property(lambda _: True))
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "ServiceUnavailableError"
    assert client.get("/health").status_code == 200


@pytest.mark.rule("2.9", "9.5")
def test_what_is_new_is_refused_while_the_server_ends_and_probes_are_not(client):
    done = []
    client.app.gate.active = 1  # something is in flight
    with client.portal() as portal:
        portal.call(client.app.gate.drain, lambda: done.append(1), 60.0)
    assert not done
    for path in ("/ready", "/version", "/no/such/path"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "ServiceUnavailableError"
        assert answer.headers["retry-after"]
        assert answer.headers["connection"] == "close"
        assert answer.headers["x-request-id"]
    assert client.post(CHAT, json={}).status_code == 503
    assert client.get("/health").status_code == 200
    assert samples(client)["derender_errors_total", CHAT, "ServiceUnavailableError"] == 1
    assert not done
    client.app.gate.active = 0
    client.get("/health")
    assert done == [1]


# -- request ids and the access log ------------------------------------------------------------------------------------


@pytest.mark.rule("9.2")
@pytest.mark.parametrize("path", ["/health", "/version", "/no/such/path", CHAT, "/metrics"])
def test_the_request_id_is_echoed_on_every_answer(client, path):
    assert client.get(path, headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    made = [client.get(path).headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in made)


@pytest.mark.rule("9.2")
def test_errors_of_every_kind_carry_the_request_id(client, monkeypatch):
    monkeypatch.setattr(client.app.state.services, "detokenize", lambda _: 1 / 0)
    headers = {"x-request-id": "mine-2", "content-type": "application/json"}
    for path, content, status in (
        ("/tokenize", b"{", 400),
        ("/no", b"{}", 404),
        ("/detokenize", b"{}", 500),
        (CHAT, b'{"model": "x", "generate_response": {"choices": []}}', 404),
    ):
        answer = client.post(path, content=content, headers=headers)
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "mine-2")


def test_the_log_of_a_bug_names_the_request(client, monkeypatch, caplog):
    monkeypatch.setattr(client.app.state.services, "detokenize", lambda _: 1 / 0)
    with caplog.at_level(logging.ERROR, logger="derender"):
        client.post("/detokenize", json={}, headers={"x-request-id": "mine-3"})
    assert "mine-3" in caplog.text


@pytest.mark.parametrize("wrong", ["", "a b", "a\tb", "é".encode(), "x" * (LONGEST_ID + 1)])
def test_a_request_id_that_no_log_should_hold_is_400(client, wrong):
    answer = client.get("/version", headers={"x-request-id": wrong})
    assert answer.status_code == 400
    assert "X-Request-Id" in answer.json()["error"]["message"]
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
    assert client.get("/version", headers={"x-request-id": "x" * LONGEST_ID}).status_code == 200


@pytest.mark.rule("9.3")
def test_a_line_of_json_for_each_request():
    stream = io.StringIO()
    with TestClient(create_app(Settings(model="demo"), AccessLog(stream))) as client:
        client.get("/version", headers={"x-request-id": "r-1"})
        client.post("/detokenize", json={"tokens": [-1]}, headers={"x-request-id": "r-2"})
        client.get('/no/"such"/%0a%ff/path?key=secret', headers={"x-request-id": "r-3"})
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["request_id"], line["method"], line["route"], line["status"]) for line in lines] == [
        ("r-1", "GET", "/version", 200),
        ("r-2", "POST", "/detokenize", 400),
        ("r-3", "GET", "other", 404),
    ]
    assert all(line["duration_ms"] > 0 and line["time"] > 1e9 for line in lines)
    assert lines[2]["path"].startswith("/no/")
    assert "secret" not in stream.getvalue()


def test_a_log_that_cannot_be_written_costs_no_request():
    stream = io.StringIO()
    stream.close()
    with TestClient(create_app(Settings(model="demo"), AccessLog(stream))) as client:
        assert client.get("/version").status_code == 200


# -- traces ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("9.4")
def test_requests_are_spans_and_probes_are_not():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(Settings(model="demo"))
    app.gate._app = trace_requests(app.behind_gate, provider)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with TestClient(app) as client:
        client.get("/health")
        client.get("/ready")
        client.post("/detokenize", json={"tokens": [1]}, headers={"traceparent": parent})
        client.post("/detokenize", json={"tokens": [-1]})
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["POST /detokenize"] * 2
    assert f"{spans[0].context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    codes = [
        span.attributes.get("http.status_code", span.attributes.get("http.response.status_code")) for span in spans
    ]
    assert codes == [200, 400]


@pytest.mark.rule("9.4")
def test_nothing_of_opentelemetry_is_loaded_unless_traces_go_somewhere():
    program = (
        "import sys\n"
        "from derender_server.app import create_app\n"
        "from derender_server.settings import Settings\n"
        "create_app(Settings(model='demo'))\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- starting ----------------------------------------------------------------------------------------------------------


def test_an_application_can_be_started_again():
    app = create_app(Settings(model="demo"))
    long = {"prompt": "word " * 5000}
    for _ in range(2):
        with TestClient(app) as client:
            assert client.post("/tokenize", json=long).status_code == 200


def test_parsers_that_were_chosen_are_counted_and_watched_by_their_names(small_model):
    template = (  # like Qwen3's
        "{# <tool_call>\n<function-name> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}<|im_start|>assistant\n<think>\n{# </think> #}"
    )
    config = {"max_position_embeddings": 512, "model_type": "qwen3"}
    model = str(small_model(config=config, tokenizer_config={"chat_template": template}))
    settings = Settings(
        model=model, tool_call_parser="auto", reasoning_parser="auto", enable_auto_tool_choice=True, plugin_timeout=60
    )
    with TestClient(create_app(settings)) as client:
        output = ids(client, f"<think>well</think>{CALL}")
        body = {
            "generate_response": {"choices": [{"token_ids": output}]},
            "prompt_token_ids": ids(client, PROMPT),
            "chat_request": REQUESTS["chat"],
        }
        assert client.post(CHAT, json=body).status_code == 200
        assert {key[1] for key in samples(client) if key[0] == "derender_tool_calls_total"} == {"hermes"}
