"""``stream_state``: small, checked, signed on request, and the replay form of other servers. WIRE.md section 5."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender_core.errors import InputError, StateError

END = "<|im_end|>"
JSON = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
CALL = f"<tool_call>\n{JSON}\n</tool_call>"
OUTPUT = f"<think>\nwell\n</think>\n\nLet me look.\n{CALL}\n{CALL}<|im_end|>"


def step(t, state, token_ids=(65,), **more):
    body = {
        "stream": True,
        "generate_chunk": {"request_id": "chatcmpl-1", "choices": [{"index": 0, "token_ids": list(token_ids)}]},
        "stream_state": state,
        "chat_request": t.request(),
    }
    return t.derenderer.derender_chat_chunk({**body, **more})


@pytest.mark.rule("5.12")
def test_the_state_does_not_grow_with_the_output(talk):
    t = talk()
    for parsers in ((t, None), (talk(None, None), {})):
        answers = parsers[0].chunks("The quick brown fox. " * 200, parsers[1], size=5)
        sizes = [len(json.dumps(answer["stream_state"])) for answer in answers]
        assert max(sizes) < 400
        assert sizes[-2] <= sizes[20] + 8, "only counters grow"


@pytest.mark.rule("5.13")
def test_a_state_of_other_parsers_is_refused_and_says_so(talk):
    made = talk("hermes", None).chunks("Hi")[-1]["stream_state"]
    with pytest.raises(StateError, match="other parsers") as error:
        step(talk("hermes", "qwen3"), made)
    assert error.value.param == "stream_state.p"


@pytest.mark.rule("5.13")
def test_a_state_of_another_version_is_refused_and_says_so(talk):
    t = talk()
    state = t.chunks("Hi")[-1]["stream_state"]
    for version in (None, 0, 2, "1"):
        with pytest.raises(StateError, match="version") as error:
            step(t, {**state, "v": version})
        assert error.value.param == "stream_state.v"


@pytest.mark.rule("5.17")
def test_size_comes_before_everything_else(talk):
    t = talk()
    with pytest.raises(StateError, match="bytes long"):
        step(t, {"v": "x" * 10**6})


def test_the_fields_of_a_state_are_checked_by_name(talk):
    t = talk()
    state = t.chunks("Hi")[-1]["stream_state"]
    wrong = {"i": 5, "t": -1, "r": 1, "m": 2**60, "n": True, "c": "0", "q": 1.5, "b": "zz", "k": "x", "s": [1]}
    for key, value in wrong.items():
        with pytest.raises(StateError) as error:
            step(t, {**state, key: value})
        assert error.value.param == f"stream_state.{key}"


@pytest.mark.rule("5.17")
@pytest.mark.parametrize("output", [OUTPUT, "<think>\nopen", "é😀 text <tool_cal", "plain\n\n"])
def test_no_tampering_with_a_state_raises_anything_but_an_input_error(talk, output):
    t = talk()
    states = [answer["stream_state"] for answer in t.chunks(output)]
    junk = [None, True, -1, 2**70, 1.5, "", "x", "\ud800", [], {}, [[]], {"a": {}}, ["x"], [2**70]]
    for state in states[::5]:
        for path in paths(state):
            for value in junk:
                refusal = refused(t, altered(state, path, value))
                assert refusal is None or str(refusal.param).startswith("stream_state")


def refused(t, state):
    """How a chunk with this state is refused; None when it is not."""
    try:
        step(t, state)
    except InputError as error:
        return error
    return None


def paths(value, before=()):
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*before, key)
            yield from paths(part, (*before, key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield (*before, at)
            yield from paths(part, (*before, at))


def altered(state, path, value):
    copied = copy.deepcopy(state)
    here = copied
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return copied


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list("vpitsrmnocqbkx")) | st.just("output_token_ids"), json_values))
def test_no_made_up_state_raises_anything_but_an_input_error(small_derenderer, state):
    body = {
        "stream": True,
        "generate_chunk": {"choices": [{"token_ids": [65]}]},
        "stream_state": state,
        "prompt_token_ids": [65],
        "chat_request": {},
    }
    with contextlib.suppress(StateError):
        small_derenderer.derender_chat_chunk(body)


@pytest.fixture(scope="module")
def small_derenderer():
    from derender_server import Derenderer

    return Derenderer.from_pretrained("demo", tool_parser="hermes", reasoning_parser="qwen3")


# -- signed states -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("5.18")
def test_signed_states_go_round_and_forged_ones_do_not(talk):
    t = talk(state_secret="s3cret")
    output = OUTPUT
    assert t.streamed(output) == t.message(output)
    state = t.chunks("Hello")[2]["stream_state"]
    step(t, state)
    for forged in ({**state, "n": 0}, {**state, "sig": "0" * 64}, {k: v for k, v in state.items() if k != "sig"}):
        with pytest.raises(StateError, match="not signed") as error:
            step(t, forged)
        assert error.value.param == "stream_state.sig"


@pytest.mark.rule("5.18")
def test_a_state_signed_with_another_secret_is_refused(talk):
    state = talk(state_secret="one").chunks("Hello")[2]["stream_state"]
    with pytest.raises(StateError, match="not signed"):
        step(talk(state_secret="two"), state)


def test_where_states_are_signed_the_replay_form_is_refused(talk):
    t = talk(state_secret="s3cret")
    with pytest.raises(StateError, match="not signed"):
        step(t, {"output_token_ids": [65], "output_chunk_lens": [1]}, prompt_token_ids=[65])


# -- the replay form ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("5.14")
@pytest.mark.parametrize("size", [1, 4])
def test_a_stream_begun_elsewhere_is_finished_here(talk, size):
    t = talk()
    output = OUTPUT
    ids = t.ids(output)
    own = t.chunks(output, size=size)
    for begun in range(0, len(own) - 1, 3):
        so_far = ids[: begun * size]
        deltas = [answer["chunk"]["choices"][0]["delta"] for answer in own[:begun]]
        calls = [entry for delta in deltas for entry in delta.get("tool_calls", []) if "id" in entry]
        state = {
            "output_token_ids": so_far,
            "output_chunk_lens": [size] * begun,
            "role_sent": begun > 0,
            "tools_streamed": bool(calls),
            "last_tool_call_ids": [entry["id"] for entry in calls],
        }
        pieces = [ids[at : at + size] for at in range(begun * size, len(ids), size)]
        first = step(t, state, pieces[0], prompt_token_ids=t.ids("x"))
        rest = t.chunks(pieces[1:], state=first["stream_state"])
        assert [answer["chunk"]["choices"][0]["delta"] for answer in [first, *rest]] == [
            answer["chunk"]["choices"][0]["delta"] for answer in own[begun:]
        ]
        assert rest[-1]["chunk"]["choices"][0]["finish_reason"] == "tool_calls"
        assert "output_token_ids" not in first["stream_state"], "it goes on with the compact state"


@pytest.mark.rule("5.16")
def test_ids_that_were_given_to_calls_are_kept(talk):
    t = talk()
    ids = t.ids(t.call)
    # The other server had announced the call before its name was complete.
    begun = len(t.ids('<tool_call>\n{"name": "get_wea'))
    state = {
        "output_token_ids": ids[:begun],
        "output_chunk_lens": [begun],
        "role_sent": True,
        "last_tool_call_ids": ["chatcmpl-tool-7"],
    }
    first = step(t, state, ids[begun : begun + 1], prompt_token_ids=t.ids("x"))
    rest = t.chunks([[token_id] for token_id in ids[begun + 1 :]], state=first["stream_state"])
    deltas = [answer["chunk"]["choices"][0]["delta"] for answer in [first, *rest]]
    (call,) = t.fold(deltas)["tool_calls"]
    assert call["id"] == "chatcmpl-tool-7"


@pytest.mark.rule("5.16")
def test_a_call_that_was_not_yet_streamed_is_streamed_here(talk):
    t = talk()
    ids = t.ids(t.call)
    state = {"output_token_ids": ids[:-2], "output_chunk_lens": [len(ids) - 2], "tools_streamed": False}
    first = step(t, state, ids[-2:-1], prompt_token_ids=t.ids("x"))
    last = t.chunks([ids[-1:]], state=first["stream_state"])
    message = t.fold([answer["chunk"]["choices"][0]["delta"] for answer in [first, *last]])
    assert message["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    assert last[-1]["chunk"]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.rule("5.15")
@pytest.mark.parametrize(
    ("state", "key"),
    [
        ({"output_token_ids": [65, 66], "output_chunk_lens": [1]}, "output_chunk_lens"),
        ({"output_token_ids": [65, 66], "output_chunk_lens": [2, 0]}, "output_chunk_lens"),
        ({"output_token_ids": [65, 66], "output_chunk_lens": [3, -1]}, "output_chunk_lens"),
        ({"output_token_ids": [65, 66]}, "output_chunk_lens"),
        ({"output_token_ids": "65", "output_chunk_lens": [1]}, "output_token_ids"),
        ({"output_token_ids": [True], "output_chunk_lens": [1]}, "output_token_ids"),
        ({"output_token_ids": [999], "output_chunk_lens": [1]}, "output_token_ids.0"),
        ({"output_token_ids": [65] * 9000, "output_chunk_lens": [1] * 9000}, "output_token_ids"),
        ({"output_token_ids": [65], "output_chunk_lens": [1], "role_sent": 1}, "role_sent"),
        ({"output_token_ids": [65], "output_chunk_lens": [1], "tools_streamed": "no"}, "tools_streamed"),
        ({"output_token_ids": [65], "output_chunk_lens": [1], "last_tool_call_ids": [5]}, "last_tool_call_ids"),
    ],
)
def test_a_replay_form_that_does_not_fit_is_refused_by_name(talk, state, key):
    t = talk()
    with pytest.raises(InputError) as error:
        step(t, state, prompt_token_ids=t.ids("x"))
    assert error.value.param == f"stream_state.{key}"


def test_a_replay_form_needs_the_prompt(talk):
    t = talk()
    with pytest.raises(InputError) as error:
        step(t, {"output_token_ids": [65], "output_chunk_lens": [1]})
    assert error.value.param == "prompt_token_ids"


# -- states that come back at once -------------------------------------------------------------------------------------


def turned(state):
    """An equal state, in other bytes: nobody remembers those."""
    return dict(reversed(state.items()))


@pytest.mark.parametrize("output", [OUTPUT, f"<think>\nA long thought é😀</think>{CALL} and ## more"])
def test_a_state_that_is_remembered_answers_as_one_that_is_not(talk, output):
    t = talk()
    request = t.request(stop=["##"])
    state = None
    for token_id in t.ids(output):
        more = {"chat_request": request, "prompt_token_ids": [65]}
        states = (None, None, None) if state is None else (state, state, turned(state))  # remembered, sent again, never
        answers = [step(t, each, [token_id], **more) for each in states]
        timeless = [(answer["chunk"] | {"created": 0}, answer["stream_state"] | {"t": 0}) for answer in answers]
        assert timeless[0] == timeless[1] == timeless[2]
        state = answers[0]["stream_state"]


def test_a_state_that_is_remembered_goes_on_under_the_request_that_comes_with_it(talk):
    t = talk()
    chunks = t.chunks("<think>a</think>Hello")
    state = chunks[-2]["stream_state"]
    plain = {"chat_request": t.request(include_reasoning=False, tools=None)}
    call = t.ids(CALL)
    assert step(t, state, call, **plain)["chunk"] == step(t, turned(state), call, **plain)["chunk"]


def test_a_stop_string_that_only_the_engine_knows_counts_in_a_remembered_stream(talk):
    t = talk(None, None)
    state = t.chunks("Some ", {})[-2]["stream_state"]
    last = {"request_id": "r", "choices": [{"token_ids": t.ids("## x"), "finish_reason": "stop", "stop_reason": "##"}]}
    for each in (state, turned(state)):
        choice = step(t, each, generate_chunk=last, chat_request={})["chunk"]["choices"][0]
        assert (choice["delta"].get("content", ""), choice["stop_reason"]) == ("", "##")
