"""Hostile stream states, under several parsers: 200 or a clear 4xx, and streams that go on. Issue 3, item 9."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHAT = "/v1/chat/completions/derender"
COMPLETIONS = "/v1/completions/derender"
PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
REQUEST = {"tools": TOOLS, "stop": ["STOP"]}
REQUESTS = {
    "responses": {"tools": [{"type": "function", **TOOLS[0]["function"]}]},
    "messages": {"tools": [{"name": "f", "input_schema": {}}]},
}
ARGUMENTS = '{"name": "f", "arguments": {"a": "x\\"y é", "b": [1, {"c": null}]}}'
DEEPSEEK = (
    "<think>so</think>Look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
    '{"a": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
DEPLOYMENTS = {
    "hermes+qwen3": ("hermes", "qwen3", f"<think>\nso ST\n</think>\n\nLook.\n<tool_call>\n{ARGUMENTS}\n</tool_call>\n"),
    "deepseek": ("deepseek_v3", "deepseek_r1", DEEPSEEK),
    "llama": ("llama3_json", None, ARGUMENTS.replace("arguments", "parameters")),
    "pythonic": ("pythonic", None, "[f(a='x', b=[1, {'c': None}]), f()]"),
    "qwen3_coder": (
        "qwen3_coder", None,
        "Look.<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"),
    "glm45": (
        "glm45", "glm45",
        "<think>so</think><tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"),
    "no parser": (None, None, "Plain text, é🦜 and more."),
}  # fmt: skip

odd = st.sampled_from(
    [
        None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53, 2**63, 10**30, 10**400, 0.5, 1e308,
        "", "x", "\0", "é", "f" * 7, "<think>", "<tool_call>", '{"', '"', "\\", "text", "body", "ff", "x" * 70000,
        [], {}, [0], [-1], [None], [[]], ["x"], [0] * 3000, [1, 2, 3], {"x": 1}, {"v": 1},
    ]
)  # fmt: skip
any_json = st.recursive(
    st.integers() | st.text(max_size=8), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
hostile = odd | any_json


def places(value, path=()):
    """The paths of all values in a value, itself not counted."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*path, key)
        yield from places(child, (*path, key))


@st.composite
def tampered(draw, states):
    """A state of a stream with a few things in it replaced, left out, added, or moved from elsewhere."""
    state = copy.deepcopy(draw(st.sampled_from(states)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(state))
        if not found:
            break
        *way, last = draw(st.sampled_from(found))
        parent = state
        for key in way:
            parent = parent[key]
        kind = draw(st.sampled_from(["replace", "nudge", "leave out", "add", "move"]))
        old = parent[last]
        if kind == "replace":
            parent[last] = copy.deepcopy(draw(hostile))
        elif kind == "nudge" and isinstance(old, int | str):
            parent[last] = old + draw(st.integers(-3, 3)) if isinstance(old, int) else old + draw(st.text(max_size=4))
        elif kind == "leave out":
            del parent[last]
        elif kind == "add" and isinstance(parent, dict):
            parent[draw(st.sampled_from([*"vpitswrmnoqbcka", "sig", "buffer", "phase", "x"]))] = copy.deepcopy(
                draw(hostile)
            )
        elif kind == "move":
            other = copy.deepcopy(draw(st.sampled_from(states)))
            for key in way:
                other = other[key] if isinstance(other, dict) and key in other else None
            if isinstance(other, dict) and last in other:
                parent[last] = other[last]
    return state


class Streams:
    """Streams of a deployment."""

    def __init__(self, prober, tool, reasoning, output):
        self._prober = prober
        self.ids = self._tokens(output)
        self._prompt = self._tokens(PROMPT)
        self.parses = bool(tool or reasoning)

    def _tokens(self, text):
        return self._prober.send("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]

    def chunk(self, state, token_ids, *, api="chat", finish_reason=None):
        """Status and answer of a chunk."""
        body = {
            "stream": True,
            "generate_chunk": {"choices": [{"token_ids": token_ids, "finish_reason": finish_reason}]},
        }
        body |= {"stream_state": state, "prompt_token_ids": self._prompt}
        if api == "completions":
            return self._prober.send(COMPLETIONS, body | {"completion_request": {"stop": "STOP"}})
        if api == "chat":
            return self._prober.send(CHAT, body | {"chat_request": REQUEST})
        return self._prober.send(f"/v1/{api}/derender", body | {f"{api}_request": REQUESTS[api]})

    def states(self, api="chat"):
        """The state after every token, as far as the stream goes without more."""
        found, state = [], None
        for token_id in self.ids:
            status, answer = self.chunk(state, [token_id], api=api)
            if status != 200:
                assert answer["error"]["param"] == "transcript"
                break
            state = answer["stream_state"]
            found.append(state)
        return found

    def go_on(self, state, token_ids, api):
        """Go on with a state until the end, or until it is refused."""
        for at in range(0, len(token_ids), 5):
            status, answer = self.chunk(state, token_ids[at : at + 5], api=api)
            if status != 200:
                assert answer["error"]["type"] in ("BadRequestError", "PayloadTooLargeError")
                return
            assert len(json.dumps(answer["stream_state"])) < 600_000
            state = answer["stream_state"]
        self.chunk(state, [], api=api, finish_reason="stop")


@pytest.fixture(scope="module", params=DEPLOYMENTS.items(), ids=list(DEPLOYMENTS))
def streams(request, prober):
    name, (tool, reasoning, output) = request.param
    # Not the demo itself: its own parsers would stand in for none.
    directory = str(demo_directory())
    deployed = prober(
        f"fuzz of states, {name}", model=directory, tool_call_parser=tool, reasoning_parser=reasoning,
        enable_auto_tool_choice=True, max_model_len=4096,
    )  # fmt: skip
    return Streams(deployed, tool, reasoning, output)


def demo_directory():
    from importlib.resources import files

    return files("derender_server.demo") / "model"


@pytest.mark.rule("8.2", "5.17")
@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_a_tampered_state_is_refused_or_goes_on(streams, fuzz_factor, api):
    states = streams.states(api)
    assert len(states) > 3

    @settings(max_examples=100 * fuzz_factor, suppress_health_check=list(HealthCheck))
    @given(tampered(states), st.integers(0, len(streams.ids)))
    def run(state, start):
        streams.go_on(state, streams.ids[start:], api)

    run()


@pytest.mark.rule("8.2")
def test_a_replay_form_of_any_kind_is_refused_or_goes_on(streams, fuzz_factor):
    ids, lens = streams.ids, [1] * len(streams.ids)
    good = {"output_token_ids": ids, "output_chunk_lens": lens, "tools_streamed": [True], "role_sent": True,
            "last_tool_call_ids": ["call_1"]}  # fmt: skip

    @settings(max_examples=60 * fuzz_factor, suppress_health_check=list(HealthCheck))
    @given(tampered([good, {**good, "output_token_ids": [], "output_chunk_lens": []}]))
    def run(state):
        streams.go_on(state, ids[:20], "chat")

    run()


@pytest.mark.rule("5.18")
def test_with_a_secret_every_tampered_state_is_400(prober, fuzz_factor):
    deployed = prober("fuzz of signed states", model="demo", state_secret="secret")
    streams = Streams(deployed, "hermes", "qwen3", DEPLOYMENTS["hermes+qwen3"][2])
    states = streams.states()
    written = {json.dumps(state, sort_keys=True) for state in states}

    @settings(max_examples=100 * fuzz_factor, suppress_health_check=list(HealthCheck))
    @given(tampered(states).filter(lambda state: json.dumps(state, sort_keys=True) not in written))
    def run(state):
        status, answer = streams.chunk(state, [300])
        assert status == 400
        assert answer["error"]["param"] in ("stream_state", "stream_state.sig")

    run()
    assert streams.chunk(states[3], [300])[0] == 200


def test_a_state_is_of_no_use_under_another_secret(prober):
    output = "Plain text"
    one, two = (
        Streams(prober(f"secret {secret}", model="demo", state_secret=secret), "hermes", "qwen3", output)
        for secret in ("one", "two")
    )
    state = one.states()[-1]
    assert one.chunk(state, [300])[0] == 200
    status, answer = two.chunk(state, [300])
    assert (status, answer["error"]["param"]) == (400, "stream_state.sig")
