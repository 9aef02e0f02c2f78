"""Streaming chat derendering: WIRE.md section 5."""

from __future__ import annotations

import json

import pytest

from derender_core.errors import InputError

END = "<|im_end|>"


def step(t, body):
    return t.derenderer.derender_chat_chunk({"stream": True, "chat_request": t.request(), **body})


def refused(t, body):
    with pytest.raises(InputError) as error:
        step(t, body)
    return error.value


def chunk(*choices, **more):
    return {"generate_chunk": {"request_id": "chatcmpl-1", "choices": list(choices), **more}}


@pytest.mark.rule("6.10")
def test_a_stream_needs_no_memory_between_calls_and_folds_to_the_one_shot_message(talk):
    t = talk()
    output = f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}\n{t.call.replace('Oslo', 'Rome')}{END}"
    whole = t.message(output)
    for size in (1, 2, 7, 1000):
        assert t.streamed(output, size=size) == whole


@pytest.mark.rule("3.19", "5.1")
def test_two_choices_in_a_chunk_are_refused(talk):
    t = talk()
    error = refused(t, chunk({"index": 0, "token_ids": [65]}, {"index": 1, "token_ids": [66]}))
    assert error.param == "generate_chunk.choices"
    assert "at most one choice per chunk" in str(error)


@pytest.mark.rule("5.1")
def test_interleaved_choices_with_a_state_each_do_not_mix(talk):
    t = talk()
    call, text = t.ids(f"{t.call}{END}"), t.ids("No tool needed here.")
    states, deltas, finish = [None, None], [[], []], [None, None]
    for at in range(max(len(call), len(text))):
        for index, ids in enumerate((call, text)):
            if at < len(ids):
                reason = "stop" if at == len(ids) - 1 else None
                body = chunk({"index": index, "token_ids": [ids[at]], "finish_reason": reason})
                answer = step(t, {**body, "stream_state": states[index], "prompt_token_ids": t.ids("x")})
                states[index] = answer["stream_state"]
                (choice,) = answer["chunk"]["choices"]
                assert choice["index"] == index
                deltas[index].append(choice["delta"])
                finish[index] = choice["finish_reason"]
    assert [call["function"]["name"] for call in t.fold(deltas[0])["tool_calls"]] == ["get_weather"]
    assert t.fold(deltas[1])["content"] == "No tool needed here."
    assert finish == ["tool_calls", "stop"]
    assert [sum("role" in delta for delta in one) for one in deltas] == [1, 1], "each choice has its role"


@pytest.mark.rule("5.2")
@pytest.mark.parametrize("parsers", [("hermes", None), (None, "qwen3")])
def test_a_parser_needs_chat_request_on_every_call(talk, parsers):
    t = talk(*parsers)
    body = chunk({"index": 0, "token_ids": [65]})
    first = step(t, {**body, "prompt_token_ids": [65]})
    for state in (None, first["stream_state"]):
        error = refused(t, {**body, "prompt_token_ids": [65], "stream_state": state, "chat_request": None})
        assert error.param == "chat_request"


@pytest.mark.rule("5.2")
@pytest.mark.parametrize("parsers", [("hermes", None), (None, "qwen3")])
def test_a_parser_needs_the_prompt_on_the_first_call_and_not_later(talk, parsers):
    t = talk(*parsers)
    body = chunk({"index": 0, "token_ids": [65]})
    assert refused(t, body).param == "prompt_token_ids"
    first = step(t, {**body, "prompt_token_ids": t.ids("x")})
    left_out = step(t, {**body, "stream_state": first["stream_state"]})
    sent_again = step(t, {**body, "stream_state": first["stream_state"], "prompt_token_ids": t.ids("x")})
    assert left_out == sent_again


def test_without_parsers_neither_is_needed(talk):
    t = talk(None, None)
    answer = t.derenderer.derender_chat_chunk({"stream": True, **chunk({"index": 0, "token_ids": [65]})})
    assert answer["chunk"]["choices"][0]["delta"] == {"role": "assistant", "content": t.tokenizer.token_text(65)}


@pytest.mark.rule("5.3")
def test_the_role_goes_out_once_with_the_first_choice_and_not_with_usage(talk):
    t = talk()
    usage = step(t, {**chunk(usage={"prompt_tokens": 3}), "prompt_token_ids": t.ids("x")})
    assert usage["chunk"]["choices"] == []
    body = chunk({"index": 0, "token_ids": []})
    first = step(t, {**body, "prompt_token_ids": t.ids("x"), "stream_state": usage["stream_state"]})
    assert first["chunk"]["choices"][0]["delta"] == {"role": "assistant"}
    second = step(t, {**body, "stream_state": first["stream_state"]})
    assert second["chunk"]["choices"][0]["delta"] == {}


@pytest.mark.rule("5.4")
def test_a_chunk_with_a_finish_reason_and_no_tokens_flushes_what_is_held_back(talk):
    t = talk()
    text = t.chunks(f"{t.ids}"[:0] or "a <tool", size=100, finish_reason=None)
    state = text[-1]["stream_state"]
    last = step(t, {**chunk({"index": 0, "token_ids": None, "finish_reason": "stop"}), "stream_state": state})
    assert text[-1]["chunk"]["choices"][0]["delta"]["content"] == "a"
    assert last["chunk"]["choices"][0]["delta"] == {"content": " <tool"}
    assert last["chunk"]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.rule("3.19", "5.5")
def test_a_usage_only_chunk_has_no_choices_and_the_counts(talk):
    t = talk()
    answers = t.chunks(f"<think>ab</think>Hi{END}")
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    body = {**chunk(usage=usage), "stream_state": answers[-1]["stream_state"]}
    last = step(t, body)["chunk"]
    assert last["choices"] == []
    assert last["object"] == "chat.completion.chunk"
    assert last["usage"] == {**usage, "completion_tokens_details": {"reasoning_tokens": 2}}
    assert step(t, {**body, "prompt_tokens": 9})["chunk"]["usage"]["prompt_tokens"] == 9, "the request's goes first"


def test_usage_is_counted_where_the_engine_does_not_tell(talk):
    t = talk()
    answers = t.chunks(f"<think>ab</think>Hi{END}")
    usage = step(t, {**chunk(usage={}), "stream_state": answers[-1]["stream_state"]})["chunk"]["usage"]
    assert usage["completion_tokens"] == 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + 7


def test_usage_may_come_with_every_chunk(talk):
    t = talk()
    body = chunk({"index": 0, "token_ids": [65]}, usage={"prompt_tokens": 2, "completion_tokens": 1})
    answer = step(t, {**body, "prompt_token_ids": [65]})["chunk"]
    assert len(answer["choices"]) == 1
    assert answer["usage"]["total_tokens"] == 3
    assert "usage" not in t.chunks("Hi")[0]["chunk"]


@pytest.mark.rule("5.6")
def test_the_first_delta_of_a_call_names_it_and_later_ones_have_fragments_only(talk):
    t = talk()
    deltas = [delta for delta in t.deltas(f"{t.call}{END}") if "tool_calls" in delta]
    (first,) = deltas[0]["tool_calls"]
    assert set(first) == {"index", "id", "type", "function"}
    assert (first["index"], first["type"], first["function"]["name"]) == (0, "function", "get_weather")
    assert len(deltas) > 3, "arguments come as they are written"
    for delta in deltas[1:]:
        (entry,) = delta["tool_calls"]
        assert set(entry) == {"index", "function"}
        assert set(entry["function"]) == {"arguments"}
        assert "content" not in delta
    joined = "".join(delta["tool_calls"][0]["function"]["arguments"] for delta in deltas)
    assert json.loads(joined) == {"city": "Oslo"}


def test_stream_tool_calls_whole_sends_each_call_at_once(talk):
    t = talk(stream_tool_calls="whole")
    (delta,) = [delta for delta in t.deltas(f"{t.call}{END}") if "tool_calls" in delta]
    assert delta["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}


@pytest.mark.rule("5.6")
def test_calls_that_come_in_one_chunk_have_an_entry_each(talk):
    t = talk()
    (delta,) = t.deltas(f"{t.call}\n{t.call}{END}", size=1000)
    assert [entry["index"] for entry in delta["tool_calls"]] == [0, 1]
    assert delta["tool_calls"][0]["id"] != delta["tool_calls"][1]["id"]


@pytest.mark.rule("5.6")
def test_a_retried_chunk_gets_the_same_answer_to_the_byte(talk):
    t = talk()
    answers = t.chunks(t.call)
    at = next(at for at, answer in enumerate(answers) if "tool_calls" in answer["chunk"]["choices"][0]["delta"])
    body = chunk({"index": 0, "token_ids": [t.ids(t.call)[at]]})
    state = answers[at - 1]["stream_state"]
    tries = [json.dumps(step(t, {**body, "stream_state": state})) for _ in range(2)]
    assert tries[0] == tries[1] == json.dumps(answers[at])


def test_call_ids_are_call_and_24_alphanumerics(talk):
    t = talk()
    (call,) = t.message(t.call)["tool_calls"]
    prefix, _, rest = call["id"].partition("_")
    assert (prefix, len(rest), rest.isalnum()) == ("call", 24, True)


@pytest.mark.rule("5.7")
def test_a_chunk_that_yields_nothing_answers_an_empty_delta(talk):
    t = talk()
    assert t.deltas("<think>")[0] == {"role": "assistant"}
    assert t.deltas("a<tool_call>")[1] == {}


@pytest.mark.rule("5.8")
def test_characters_that_straddle_chunks_come_out_whole_and_once(talk):
    t = talk(None, None)
    deltas = t.deltas("é😀!", {})
    assert [delta.get("content", "") for delta in deltas] == ["", "é", "", "", "", "😀", "!"]


@pytest.mark.rule("5.8")
def test_a_character_that_the_model_never_finished_is_a_replacement_character_at_the_end(talk):
    t = talk(None, None)
    deltas = t.deltas(t.ids("a😀")[:-1], {})
    assert [delta.get("content", "") for delta in deltas] == ["a", "", "", "\ufffd"]


def test_the_token_ids_of_all_chunks_are_the_generated_ids(talk):
    t = talk()
    output = f"<think>a</think>{t.call}{END}"
    answers = t.chunks(output, t.request(return_token_ids=True))
    ids = [token_id for answer in answers for token_id in answer["chunk"]["choices"][0]["token_ids"]]
    assert ids == t.ids(output)
    assert answers[0]["chunk"]["prompt_token_ids"]
    assert "prompt_token_ids" not in answers[1]["chunk"]


@pytest.mark.rule("4.16")
def test_length_stays_length_when_a_call_was_cut(talk):
    t = talk()
    answers = t.chunks(t.call[:-20], finish_reason="length")
    assert answers[-1]["chunk"]["choices"][0]["finish_reason"] == "length"


def test_all_chunks_of_a_stream_have_one_id_and_one_time(talk):
    t = talk()
    chunks = [answer["chunk"] for answer in t.chunks("Hello")]
    assert {(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks} == {
        ("chatcmpl-1", chunks[0]["created"], "chat.completion.chunk")
    }


def test_a_stream_without_request_id_keeps_the_one_it_got(talk):
    t = talk(None, None)
    first = t.derenderer.derender_chat_chunk({"stream": True, "generate_chunk": {"choices": [{"token_ids": [65]}]}})
    second = t.derenderer.derender_chat_chunk(
        {
            "stream": True,
            "generate_chunk": {"choices": [{"token_ids": [65]}]},
            "stream_state": first["stream_state"],
        }
    )
    assert first["chunk"]["id"].startswith("chatcmpl-")
    assert first["chunk"]["id"] == second["chunk"]["id"]


@pytest.mark.rule("5.11")
def test_prompt_and_output_so_far_and_chunk_must_fit_max_model_len(talk):
    t = talk(None, None, max_model_len=10)
    body = chunk({"index": 0, "token_ids": [65] * 4})
    first = step(t, {**body, "prompt_token_ids": [65] * 3})
    error = refused(t, {**body, "stream_state": first["stream_state"]})
    assert "max_model_len (10)" in str(error)
    fits = chunk({"index": 0, "token_ids": [65] * 3})
    step(t, {**fits, "stream_state": first["stream_state"]})


@pytest.mark.rule("5.11")
@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"token_ids": [65] * 11}, "generate_chunk.choices.0.token_ids"),
        ({"token_ids": [264]}, "generate_chunk.choices.0.token_ids.0"),
        (
            {"token_ids": [65], "logprobs": {"content": [{"token_id": 65, "logprob": -1}] * 11}},
            "generate_chunk.choices.0.logprobs.content",
        ),
    ],
)
def test_the_limits_of_one_shot_hold_for_chunks(talk, choice, param):
    t = talk(None, None, max_model_len=10)
    assert refused(t, chunk(choice)).param == param


# -- the library's stream ----------------------------------------------------------------------------------------------


def test_a_stream_object_keeps_the_states_of_all_choices(talk):
    t = talk()
    stream = t.derenderer.stream(t.request(n=2), prompt_token_ids=t.ids("x"), prompt_tokens=1)
    outputs = [t.ids(f"<think>ab</think>{t.call}{END}"), t.ids(f"<think>c</think>Hi{END}")]
    deltas = [[], []]
    for at in range(max(map(len, outputs))):
        for index, ids in enumerate(outputs):
            if at < len(ids):
                choice = {"index": index, "token_ids": ids[at : at + 1]}
                if at == len(ids) - 1:
                    choice["finish_reason"] = "stop"
                body = stream.push({"request_id": "r", "choices": [choice]})
                deltas[index].append(body["choices"][0]["delta"])
    assert t.fold(deltas[0])["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'
    assert t.fold(deltas[1])["content"] == "Hi"
    usage = stream.push({"request_id": "r", "choices": [], "usage": {"completion_tokens": 50}})["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}, "of all choices"
    assert sorted(stream.states) == [0, 1]
