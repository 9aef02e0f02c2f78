"""Faults that users reported against servers of this protocol and against clients, each as it must be here."""

from __future__ import annotations

import json

import pytest

from derender_core.errors import InputError

RUN_SHELL = {
    "type": "function",
    "function": {"name": "run_shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
}
SEARCH = {
    "type": "function",
    "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
}


def finish(answers):
    return answers[-1]["chunk"]["choices"][0]["finish_reason"]


def test_vllm_53269_a_streamed_call_cut_by_max_tokens_ends_with_length_and_gets_no_characters_added(talk):
    t = talk("hermes", None)
    cut = '<tool_call>\n{"name": "run_shell", "arguments": {"command": "rm -r build/ou'
    request = t.request(tools=[RUN_SHELL])
    answers = t.chunks(cut, request, finish_reason="length")
    assert finish(answers) == "length"
    (call,) = t.fold([answer["chunk"]["choices"][0]["delta"] for answer in answers])["tool_calls"]
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(call["function"]["arguments"])
    assert "tool_calls" not in t.message(cut, request, finish_reason="length")


def test_vllm_38158_streamed_choices_do_not_share_a_parser(talk):
    t = talk("hermes", None)
    parts = [
        (0, '<tool_call>\n{"name": "get_weather", ', None),
        (1, "No tool ", None),
        (0, '"arguments": {"city": "Oslo"}}', None),
        (1, "needed here.", None),
        (1, "", "stop"),
        (0, "\n</tool_call>", "stop"),
    ]
    stream = t.derenderer.stream(t.request(n=2), prompt_token_ids=t.ids("x"))
    deltas, last = {0: [], 1: []}, {}
    for index, text, reason in parts:
        choice = {"index": index, "token_ids": t.ids(text), "finish_reason": reason}
        (shown,) = stream.push({"request_id": "r", "choices": [choice]})["choices"]
        deltas[index].append(shown["delta"])
        last[index] = shown["finish_reason"]
    message = t.fold(deltas[0])
    assert (message["content"], [call["function"]["name"] for call in message["tool_calls"]]) == (None, ["get_weather"])
    assert t.fold(deltas[1])["content"] == "No tool needed here."
    assert last == {0: "tool_calls", 1: "stop"}


def test_openai_python_3203_two_calls_of_a_required_list_that_arrive_together_have_one_entry_each(talk):
    t = talk("hermes", None)
    output = json.dumps(
        [
            {"name": "get_weather", "parameters": {"city": "Oslo"}},
            {"name": "search", "parameters": {"query": "tides"}},
        ]
    )
    request = t.request(tools=[t.weather, SEARCH], tool_choice="required")
    (delta,) = t.deltas(output, request, size=10_000)
    assert [entry["index"] for entry in delta["tool_calls"]] == [0, 1]
    found = [(entry["function"]["name"], json.loads(entry["function"]["arguments"])) for entry in delta["tool_calls"]]
    assert found == [("get_weather", {"city": "Oslo"}), ("search", {"query": "tides"})]
    assert finish(t.chunks(output, request, size=10_000)) == "tool_calls"


def test_vllm_53255_required_without_a_call_is_a_stop_and_keeps_the_text(talk):
    t = talk("hermes", None)
    request = t.request(tool_choice="required")
    choice = t.chat("I am fine, thanks.", request)["choices"][0]
    assert choice["message"]["content"] == "I am fine, thanks."
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == finish(t.chunks("I am fine, thanks.", request)) == "stop"


def test_vllm_47931_a_parsed_call_makes_the_finish_reason_tool_calls(talk):
    t = talk("hermes", None)
    assert t.chat(t.call)["choices"][0]["finish_reason"] == "tool_calls"
    assert finish(t.chunks(t.call)) == "tool_calls"


def test_llama_cpp_9867_text_before_a_stop_string_in_the_same_token_is_streamed():
    from derender_server import Derenderer

    derenderer = Derenderer.from_pretrained("demo")
    encode = derenderer.model.tokenizer.encode
    stream = derenderer.stream({"stop": ["\n"]})
    text = ""
    for piece, reason in (("What", None), (" color", None), ("?\n", "stop")):
        choice = {"token_ids": encode(piece), "finish_reason": reason, "stop_reason": "\n" if reason else None}
        text += stream.push({"choices": [choice]})["choices"][0]["delta"].get("content", "")
    assert text == "What color?"


def test_ollama_13497_bytes_of_parts_of_a_character_are_their_own(talk):
    t = talk(None, None)
    ids = t.ids("😀")
    content = t.chat("😀", {}, logprobs={"content": [{"token_id": i, "logprob": -0.1} for i in ids]})
    entries = content["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in entries] == [[0xF0], [0x9F], [0x98], [0x80]]
    assert all(entry["bytes"] != [239, 191, 189] for entry in entries)


def test_vllm_19177_tokens_are_text_and_not_the_byte_alphabet(talk):
    t = talk(None, None)
    content = t.chat("是", {}, logprobs={"content": [{"token_id": i, "logprob": -0.16} for i in t.ids("是")]})
    last = content["choices"][0]["logprobs"]["content"][-1]
    assert last["token"] == "是"


def test_vllm_57574_integer_ids_and_placeholders_are_the_same(talk):
    t = talk(None, None)
    new = {"token_id": 65, "logprob": -0.5, "rank": 1, "top_logprobs": [{"token_id": 65, "logprob": -0.5, "rank": 1}]}
    old = {
        "token": "token_id:65",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "token_id:65", "logprob": -0.5}],
    }
    found = [t.chat([65], {}, logprobs={"content": [entry]})["choices"][0]["logprobs"] for entry in (new, old)]
    assert found[0] == found[1]


def test_vllm_55029_text_offset_goes_on_over_a_stream():
    from derender_server import Derenderer

    derenderer = Derenderer.from_pretrained("demo")
    tokenizer = derenderer.model.tokenizer
    stream = derenderer.stream_completion({"logprobs": 1})
    lengths, offsets = [], []
    for text in ("Hello", " world", "!"):
        ids = tokenizer.encode(text)
        logprobs = {"content": [{"token_id": i, "logprob": -1.0} for i in ids]}
        chunk = stream.push({"choices": [{"token_ids": ids, "logprobs": logprobs}]})
        offsets += chunk["choices"][0]["logprobs"]["text_offset"]
        lengths += [len(tokenizer.token_text(i)) for i in ids]
    assert offsets == [sum(lengths[:at]) for at in range(len(lengths))]


def test_vllm_38640_continuation_deltas_have_no_null_keys(talk):
    t = talk("hermes", None)
    pieces = ['<tool_call>\n{"name": "get_weather", "arguments": {"ci', 'ty": "Linz"}', "}\n</tool_call>"]
    deltas = t.deltas([t.ids(piece) for piece in pieces])
    assert None not in [value for delta in deltas for value in delta.values()]
    (call,) = t.fold(deltas)["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Linz"}
    assert all("content" not in delta for delta in deltas)


def test_ogx_6541_the_usage_chunk_goes_through(talk):
    t = talk(None, None)
    stream = t.derenderer.stream(prompt_tokens=5)
    stream.push({"choices": [{"token_ids": t.ids("H"), "finish_reason": "stop"}]})
    last = stream.push({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}


def test_vllm_50624_reasoning_has_the_name_that_clients_look_for(talk):
    for field, present in (("reasoning", {"reasoning"}), ("both", {"reasoning", "reasoning_content"})):
        t = talk(None, "deepseek_r1", reasoning_field=field)
        output, prompt = "sum it</think>4", "x<think>\n"
        message = t.message(output, {}, prompt=prompt)
        streamed = t.streamed(output, {}, prompt=prompt)
        for found in (message, streamed):
            assert {key for key in found if key.startswith("reasoning") and found[key] == "sum it"} == present
            assert found["content"] == "4"


def test_vllm_47301_the_role_comes_once_for_each_choice(talk):
    t = talk(None, None)
    stream = t.derenderer.stream({"n": 2})
    roles = []
    for index, text in ((0, "A"), (1, "B"), (0, "a"), (1, "b")):
        (choice,) = stream.push({"choices": [{"index": index, "token_ids": t.ids(text)}]})["choices"]
        roles.append(choice["delta"].get("role"))
    assert roles == ["assistant", "assistant", None, None]
    assert stream.push({"choices": [], "usage": {}})["choices"] == []


def test_vllm_27482_token_ids_are_complete_although_tokens_are_held_back(talk):
    t = talk("hermes", None)
    answers = t.chunks(t.call, t.request(return_token_ids=True))
    assert [i for answer in answers for i in answer["chunk"]["choices"][0]["token_ids"]] == t.ids(t.call)


def test_vllm_50550_a_parser_without_chat_request_fails_closed(talk):
    t = talk("hermes", "deepseek_r1")
    with pytest.raises(InputError, match="chat_request is required"):
        t.derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": [65]}]}, "chat_request": None})
    with pytest.raises(InputError, match="chat_request is required"):
        t.derenderer.derender_chat_chunk({"stream": True, "generate_chunk": {"choices": [{"token_ids": [65]}]}})


def test_vllm_50550_two_choices_in_a_chunk_are_refused(talk):
    t = talk("hermes", None)
    chunk = {"choices": [{"index": 0, "token_ids": [65]}, {"index": 1, "token_ids": [65]}]}
    with pytest.raises(InputError, match="at most one choice per chunk"):
        t.derenderer.derender_chat_chunk({"stream": True, "generate_chunk": chunk, "chat_request": {}})


def test_vllm_57571_a_retried_chunk_keeps_the_ids_of_its_calls(talk):
    t = talk("hermes", None)
    states = [None, *(answer["stream_state"] for answer in t.chunks(t.call))]
    for at, token_id in enumerate(t.ids(t.call)):
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [{"token_ids": [token_id]}]},
            "stream_state": states[at],
            "prompt_token_ids": [65],
            "chat_request": t.request(),
        }
        first, second = (json.dumps(t.derenderer.derender_chat_chunk(body)["chunk"]["choices"]) for _ in range(2))
        assert first == second


def test_vllm_57058_stop_strings_are_never_ignored_without_a_word(talk):
    t = talk(None, None)
    choice = t.chat("one STOP", {"stop": ["STOP"]})["choices"][0]
    assert (choice["message"]["content"], choice["stop_reason"]) == ("one ", "STOP")
    assert t.streamed("one STOP two", {"stop": ["STOP"]})["content"] == "one "


def test_vllm_44398_reasoning_tokens_count_although_the_prompt_opened_the_block(talk):
    t = talk(None, "deepseek_r1")
    prompt = t.ids("x<think>\n")
    ids = t.ids("abc</think>4")
    body = {"generate_response": {"choices": [{"token_ids": ids}]}, "prompt_token_ids": prompt, "chat_request": {}}
    usage = t.derenderer.derender_chat(body)["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}
    stream = t.derenderer.stream({}, prompt_token_ids=prompt)
    for token_id in ids:
        stream.push({"choices": [{"token_ids": [token_id]}]})
    usage = stream.push({"choices": [], "usage": {"completion_tokens": 5}})["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}
