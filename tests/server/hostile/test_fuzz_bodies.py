"""Hostile bodies on every route: whatever is sent, the answer is 200 or a clear 4xx. Issue 3, item 9."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
LOGPROBS = {"content": [{"token_id": 300, "logprob": -0.5, "top_logprobs": [{"token_id": 301, "logprob": -1.0}]}]}
PLAIN = {"content": [{"token": "token_id:300", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
CHOICE = {"index": 0, "token_ids": [300, 301], "finish_reason": "stop", "stop_reason": None, "logprobs": LOGPROBS}
RESPONSE = {"request_id": "r", "choices": [CHOICE], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
CHUNK = {"request_id": "r", "choices": [{**CHOICE, "logprobs": PLAIN, "finish_reason": None}], "usage": None}
CHAT = {
    "messages": [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"}],
    "tools": [TOOL], "tool_choice": "auto", "logprobs": True, "top_logprobs": 1, "stop": ["STOP"], "max_tokens": 5,
    "stop_token_ids": [7], "min_tokens": 1, "n": 1, "temperature": 0.5, "seed": 3, "logit_bias": {"3": 1.0},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
    "chat_template_kwargs": {"enable_thinking": True}, "return_token_ids": True, "truncate_prompt_tokens": 5,
    "stream": True, "stream_options": {"include_usage": True}, "parallel_tool_calls": False, "include_reasoning": True,
}  # fmt: skip
RESPONSES = {"input": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", **TOOL["function"]}],
             "instructions": "x", "text": {"format": {"type": "text"}}, "tool_choice": "auto"}  # fmt: skip
ANTHROPIC = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "max_tokens": 5,
             "system": "x", "tools": [{"name": "f", "input_schema": {"type": "object"}}], "stop_sequences": ["S"],
             "tool_choice": {"type": "auto"}, "thinking": {"type": "enabled", "budget_tokens": 1024}}  # fmt: skip
COMPLETION = {"prompt": ["One", "Two"], "max_tokens": 3, "logprobs": 2, "stop": "x", "echo": False, "n": 1}
REQUESTS = {"chat": CHAT, "responses": RESPONSES, "messages": ANTHROPIC}
ONE_SHOT = {"generate_response": RESPONSE, "prompt_tokens": 3, "prompt_token_ids": [300, 5]}
STREAM = {"stream": True, "generate_chunk": CHUNK, "prompt_token_ids": [300, 5], "stream_state": None}
BODIES = [
    ("/v1/chat/completions/render", CHAT),
    ("/v1/completions/render", COMPLETION),
    ("/v1/responses/render", RESPONSES),
    ("/v1/messages/render", ANTHROPIC),
    ("/v1/chat/completions/derender", {**ONE_SHOT, "chat_request": CHAT}),
    ("/v1/chat/completions/derender", {**STREAM, "chat_request": CHAT}),
    ("/v1/completions/derender", {
        "generate_responses": [RESPONSE], "prompt_tokens": [3], "prompt_token_ids": [[300]],
        "completion_request": COMPLETION}),
    ("/v1/completions/derender", {**STREAM, "completion_request": COMPLETION}),
    ("/v1/responses/derender", {**ONE_SHOT, "responses_request": RESPONSES}),
    ("/v1/responses/derender", {**STREAM, "responses_request": RESPONSES, "transcript": {"output": [], "text": ""}}),
    ("/v1/messages/derender", {**ONE_SHOT, "messages_request": ANTHROPIC}),
    ("/v1/messages/derender", {**STREAM, "messages_request": ANTHROPIC}),
    ("/parse", {"text": "<think>x</think>y", "chat_request": CHAT, "reasoning_open": False, "finish_reason": "stop"}),
    ("/tokenize", {"prompt": "hi", "add_special_tokens": True, "return_token_strs": True}),
    ("/tokenize", {"messages": MESSAGES, "tools": [TOOL], "chat_template_kwargs": {}}),
    ("/detokenize", {"tokens": [300, 301]}),
    ("/inference/v1/generate", {"token_ids": [300, 5], "sampling_params": {"max_tokens": 3, "n": 1}, "stream": False}),
]  # fmt: skip
NAMES = [f"{path}{' stream' if body.get('stream') else ''}" for path, body in BODIES]

deep = st.integers(1, 3000).map(lambda depth: Raw("[" * depth + "]" * depth)) | st.integers(1, 3000).map(
    lambda depth: Raw('{"a":' * depth + "1" + "}" * depth)
)
odd = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400),
        0.5, -0.0, 1e308, 5e-324,
        "", " ", "\0", "x" * 5000, "token_id:5", "token_id:-1", "token_id:99999999999999999999", "auto", "required",
        "none", "stop", "length", "<think>", "<tool_call>", "{{ 7 * 7 }}", "{% for x in y %}", "é🦜", "\ufffd",
        "\uffff",
        [], {}, [[]], [None], [0] * 5000, ["x"] * 500, {"": None}, {"type": "function"}, [{"type": "function"}],
        {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}, {"name": "f"},
    ]
)  # fmt: skip
values = odd | deep | st.text(max_size=20) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


class Raw:
    """JSON text that Python's writer would not write."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return f"Raw({self.text[:30]!r}, {len(self.text)} characters)"


def places(value, path=()):
    """The paths of all values in a value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


def write(body):
    """A body as JSON, raw texts put in."""
    raws = []

    def default(value):
        raws.append(value.text)
        return f"raw-{len(raws) - 1}-raw"

    text = json.dumps(body, default=default)
    for at, raw in enumerate(raws):
        text = text.replace(f'"raw-{at}-raw"', raw)
    return text.encode()


@st.composite
def mutated(draw, body):
    """A good body with a few things in it replaced, left out, doubled or added."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        found = [path for path in places(body) if path]
        if not found:
            break
        *way, last = draw(st.sampled_from(found))
        parent = body
        for key in way:
            parent = parent[key]
        kind = draw(st.sampled_from(["replace", "replace", "replace", "leave out", "double", "add"]))
        if kind == "replace":
            parent[last] = copy.deepcopy(draw(values))
        elif kind == "leave out":
            del parent[last]
        elif isinstance(parent, list):
            parent[:] = (parent * draw(st.integers(2, 40)))[:200]
        elif kind == "add":
            parent[draw(st.text(max_size=5))] = copy.deepcopy(draw(values))
    return write(body)


@pytest.fixture(scope="module")
def demo(prober):
    return prober("fuzz of bodies", model="demo")


def examples(factor):
    return settings(max_examples=120 * factor, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(("path", "body"), BODIES, ids=NAMES)
def test_the_bodies_that_are_mutated_are_good(demo, path, body):
    status, answer = demo.send(path, body)
    assert status == 200, answer


@pytest.mark.rule("8.1")
@pytest.mark.parametrize(("path", "body"), BODIES, ids=NAMES)
def test_a_mutated_body_is_answered_or_refused(demo, fuzz_factor, path, body):
    @examples(fuzz_factor)
    @given(mutated(body))
    def run(raw):
        demo.send(path, raw)

    run()


@pytest.mark.rule("8.1")
@pytest.mark.parametrize("path", sorted({path for path, _ in BODIES}))
def test_a_body_of_any_bytes_or_any_json_is_answered_or_refused(demo, fuzz_factor, path):
    json_values = st.recursive(
        values,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=10,
    )

    @examples(fuzz_factor)
    @given(st.binary(max_size=200) | json_values.map(write))
    def run(raw):
        demo.send(path, raw)

    run()


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/ping", "/version", "/load", "/v1/models", "/nothing", "/parse"]
)
def test_headers_of_any_kind_are_answered_or_refused(demo, fuzz_factor, path):
    header = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40)
    names = st.sampled_from(
        ["x-request-id", "content-type", "content-length", "content-encoding", "authorization", "accept", "traceparent"]
    )

    @examples(fuzz_factor)
    @given(st.dictionaries(names, header), st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "X"]))
    def run(headers, method):
        demo.send(path, b"{}", method=method, headers=headers)

    run()
