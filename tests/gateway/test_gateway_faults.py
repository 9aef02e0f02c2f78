"""What goes wrong at an engine: a status before an answer begins, an event of the API's own once it has."""

from __future__ import annotations

import pytest

from derender_core.errors import ParserError
from derender_server.gateway.engine_errors import EngineError

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi"}]
CHAT = {"messages": HI}
REQUESTS = {
    "chat/completions": CHAT,
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
    "messages": {"messages": HI, "max_tokens": 50},
}
TYPES = {
    400: ("BadRequestError", "invalid_request_error"),
    429: ("RateLimitError", "rate_limit_error"),
    502: ("BadGatewayError", "api_error"),
    503: ("ServiceUnavailableError", "overloaded_error"),
    504: ("GatewayTimeoutError", "timeout_error"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", TYPES)
@pytest.mark.parametrize("api", REQUESTS)
async def test_before_an_answer_begins_it_is_a_status(serve, api, status, stream):
    async with serve() as served:
        served.engines.play(EngineError(status, "It does not work", "max_tokens"))
        call = await served.post(f"/v1/{api}", REQUESTS[api] | {"stream": stream}, **{"x-request-id": "r1"})
    ours, anthropics = TYPES[status]
    error = {"message": "It does not work", "param": "max_tokens", "code": status}
    assert call.status == status
    assert call.headers["content-type"] == "application/json"
    if api == "messages":
        assert call.json == {"type": "error", "error": error | {"type": anthropics}, "request_id": "r1"}
    else:
        assert call.json == {"error": error | {"type": ours}}


def broken(served, fault):
    """A stream that begins well."""
    return [*served.chunks("<think>\nHm\n</think>\n\nHello", finish_reason=None), *fault]


FAULTS = {
    "it drops": ([EngineError(502, "The engine dropped the connection")], 502, "dropped"),
    "it times out": ([EngineError(504, "The engine said nothing for 60 seconds")], 504, "said nothing"),
    "it ends too early": ([], 502, "ended before the answer was complete"),
    "it is no JSON": ([b"<html>"], 502, "cannot be used: the body is not valid JSON"),
    "it is another JSON": ([b'{"choices": [{"token_ids": ["x"]}]}'], 502, "choices.0.token_ids"),
    "ids out of range": ([{"choices": [{"token_ids": [999999]}]}], 502, "999999"),
    "text already": ([{"choices": [{"token_ids": [5]}], "output_mode": "text"}], 502, "output_mode"),
    "a choice too many": ([{"choices": [{"index": 7, "token_ids": [5]}]}], 502, "choice 7"),
    "it says so": ([{"error": {"message": "secret at 10.0.0.1", "code": 500}}], 502, "The engine failed"),
    "it says so at the end": ([{"choices": [{"token_ids": [], "finish_reason": "error"}]}], 502, "The engine failed"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", REQUESTS)
async def test_in_a_stream_it_is_an_event_and_the_end(serve, api, fault):
    steps, status, part = FAULTS[fault]
    async with serve() as served:
        served.engines.play(broken(served, steps))
        call = await served.post(f"/v1/{api}", REQUESTS[api] | {"stream": True})
        assert served.engines.streams[0].closed.is_set()
        text, _ = served.app.state.services.metrics.text("")
    assert call.status == 200
    assert call.is_complete
    assert b"10.0.0.1" not in call.received
    error = told(api, call.events)
    assert part in error["message"]
    kind = TYPES[status][1 if api == "messages" else 0]
    if api != "responses":
        assert (error["code"], error["type"]) == (status, kind)
    assert f'derender_errors_total{{route="/v1/{api}",type="{TYPES[status][0]}"}} 1.0'.encode() in text


def told(api, events):
    """The error that the last events tell of, in the API's own form."""
    if api in ("chat/completions", "completions"):
        assert events[-1] == (None, "[DONE]")
        return events[-2][1]["error"]
    if api == "messages":
        name, event = events[-1]
        assert (name, event["type"]) == ("error", "error")
        return event["error"]
    (name, error), (last, failed) = events[-2:]
    assert (name, error["type"]) == ("error", "error")
    assert (last, failed["type"]) == ("response.failed", "response.failed")
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": error["code"], "message": error["message"]}
    assert failed["response"]["id"] == events[0][1]["response"]["id"]
    assert [item["type"] for item in failed["response"]["output"]] == ["reasoning"]
    return error


async def test_a_response_that_fails_before_its_first_event(serve):
    async with serve() as served:
        served.engines.play([EngineError(429, "Too many")])
        call = await served.post("/v1/responses", {"input": "hi", "stream": True})
    error = {"type": "error", "sequence_number": 0, "code": "rate_limit_exceeded", "message": "Too many", "param": None}
    assert call.events == [("error", error)]


async def test_one_of_several_prompts_that_fails_ends_all(serve):
    async with serve() as served:
        served.engines.play(served.chunks("a"), broken(served, [EngineError(502, "It dropped")]), served.chunks("b"))
        call = await served.post("/v1/completions", {"prompt": ["x", "y", "z"], "stream": True})
        assert all(stream.closed.is_set() for stream in served.engines.streams)
    assert told("completions", call.events)["message"] == "It dropped"


async def test_one_of_several_prompts_that_is_refused_ends_those_that_began(serve):
    async with serve() as served:
        served.engines.play(served.chunks("a"), EngineError(503, "No engine"))
        call = await served.post("/v1/completions", {"prompt": ["x", "y"], "stream": True})
        assert [stream.closed.is_set() for stream in served.engines.streams] == [True]
    assert call.status == 503


WHOLE_FAULTS = {
    "no JSON": (b"<html>", "cannot be used"),
    "no choice": ({"choices": []}, "1 choices"),
    "another choice": ({"choices": [{"index": 3, "token_ids": [5]}]}, "1 choices"),
    "no tokens": ({"choices": [{"token_ids": []}]}, "token_ids is empty"),
    "ids out of range": ({"choices": [{"token_ids": [999999]}]}, "999999"),
    "it failed": ({"choices": [{"token_ids": [5], "finish_reason": "error"}]}, "The engine failed"),
}


@pytest.mark.parametrize("fault", WHOLE_FAULTS)
@pytest.mark.parametrize("api", REQUESTS)
async def test_a_whole_response_that_cannot_be_used_is_the_engines_fault(serve, api, fault):
    response, part = WHOLE_FAULTS[fault]
    async with serve() as served:
        served.engines.play(response)
        call = await served.post(f"/v1/{api}", REQUESTS[api])
    assert call.status == 502
    assert part in call.json["error"]["message"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_collected_answer_that_breaks_is_a_status(serve, fault):
    steps, status, part = FAULTS[fault]
    async with serve() as served:
        served.engines.play(broken(served, steps))
        call = await served.post("/v1/chat/completions", CHAT | {"stop": ["HALT"]})
        assert served.engines.streams[0].closed.is_set()
    assert call.status == status
    assert part in call.json["error"]["message"]


async def test_a_failure_behind_the_last_token_is_none(serve):
    async with serve() as served:
        served.engines.play([*served.chunks("Hello"), EngineError(502, "It dropped")])
        call = await served.post("/v1/chat/completions", CHAT | {"stream": True})
    assert call.data[-1] == "[DONE]"
    assert "error" not in call.data[-2]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_parser_that_fails_is_named_and_its_text_is_not_told(serve, stream, monkeypatch):
    def fail(*_args, **_more):
        raise ParserError("tool parser 'acme' failed: boom")

    async with serve() as served:
        service = served.app.state.services.chat
        monkeypatch.setattr(service, "advance" if stream else "completion", fail)
        served.engines.play(served.chunks("Hello") if stream else served.response("Hello"))
        call = await served.post("/v1/chat/completions", CHAT | {"stream": stream})
    error = call.events[0][1]["error"] if stream else call.json["error"]
    assert (error["code"], error["type"]) == (500, "InternalServerError")
    assert "acme" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_our_own_bug_is_not_shown(serve, stream, monkeypatch, caplog):
    def fail(*_args, **_more):
        raise ZeroDivisionError("secret")

    async with serve() as served:
        service = served.app.state.services.chat
        monkeypatch.setattr(service, "advance" if stream else "completion", fail)
        served.engines.play(served.chunks("Hello") if stream else served.response("Hello"))
        call = await served.post("/v1/chat/completions", CHAT | {"stream": stream})
    assert b"secret" not in call.received
    assert b"Internal server error" in call.received
    assert "secret" in caplog.text


WRONG = {
    "no field": ({"messages": []}, "messages"),
    "a stop string": (CHAT | {"stop": [""]}, "stop"),
    "a type of derendering's": (CHAT | {"n": "2"}, "n"),
    "no JSON": (b"{", None),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_request_is_the_clients_fault_and_no_engine_is_asked(serve, wrong, stream):
    body, param = WRONG[wrong]
    async with serve() as served:
        call = await served.post("/v1/chat/completions", body | {"stream": stream} if isinstance(body, dict) else body)
        assert served.engines.requests == []
    assert (call.status, call.json["error"]["param"]) == (400, param)


async def test_a_model_that_is_not_served(serve):
    async with serve() as served:
        call = await served.post("/v1/chat/completions", CHAT | {"model": "gpt-0"})
    assert call.status == 404
