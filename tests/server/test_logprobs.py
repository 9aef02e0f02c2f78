"""Log probabilities for chat and completions: WIRE.md sections 3, 4 and 5."""

from __future__ import annotations

import json

import pytest

from derender_core.errors import InputError


@pytest.fixture
def t(talk):
    return talk(None, None)


def entries(t, text, alternatives=()):
    tops = [{"token_id": t.ids(other)[0], "logprob": -2.0 - at} for at, other in enumerate(alternatives)]
    return {"content": [{"token_id": i, "logprob": -0.5, "rank": 1, "top_logprobs": tops} for i in t.ids(text)]}


def placeholders(logprobs):
    def old(entry):
        shown = {"token": f"token_id:{entry['token_id']}", "logprob": entry["logprob"], "bytes": None}
        if "top_logprobs" in entry:
            shown["top_logprobs"] = [old(other) for other in entry["top_logprobs"]]
        return shown

    return {"content": [old(entry) for entry in logprobs["content"]]}


def shown(t, text, request=None, logprobs=None, **more):
    body = t.chat(text, request or {}, logprobs=logprobs or entries(t, text, **more))
    return body["choices"][0]["logprobs"]


@pytest.mark.rule("4.20")
def test_entries_have_text_bytes_and_alternatives(t):
    assert shown(t, "A", alternatives="BC") == {
        "content": [
            {
                "token": "A",
                "logprob": -0.5,
                "bytes": [65],
                "top_logprobs": [
                    {"token": "B", "logprob": -2.0, "bytes": [66]},
                    {"token": "C", "logprob": -3.0, "bytes": [67]},
                ],
            }
        ]
    }


@pytest.mark.rule("3.17")
def test_both_shapes_of_engines_give_the_same(t):
    logprobs = entries(t, "Hé", "x")
    assert shown(t, "Hé", logprobs=placeholders(logprobs)) == shown(t, "Hé", logprobs=logprobs)


@pytest.mark.rule("3.18")
def test_an_entry_that_is_text_already_is_passed_through(t):
    given = {"content": [{"token": "hey", "logprob": -1.0, "bytes": [1, 2]}, {"token": "token_id:x", "logprob": -1.0}]}
    assert shown(t, "ab", logprobs=given)["content"] == [
        {"token": "hey", "logprob": -1.0, "bytes": [1, 2], "top_logprobs": []},
        {"token": "token_id:x", "logprob": -1.0, "bytes": list(b"token_id:x"), "top_logprobs": []},
    ]


def test_tokens_are_text_and_not_the_vocabularys_spelling(t):
    assert shown(t, " ")["content"][0]["token"] == " "


@pytest.mark.rule("4.20")
def test_a_character_spread_over_tokens_is_shown_with_the_one_that_completes_it(t):
    content = shown(t, "a😀b")["content"]
    assert [entry["token"] for entry in content] == ["a", "", "", "", "😀", "b"]
    assert [entry["bytes"] for entry in content] == [[97], [240], [159], [152], [128], [98]]
    assert bytes(value for entry in content for value in entry["bytes"]).decode() == "a😀b"


def test_alternatives_are_read_in_the_place_of_the_token(t):
    # after the first byte of "é", the last byte of "è" is an alternative that gives "è"
    first, last = t.ids("é")
    other = {"token_id": t.ids("è")[1], "logprob": -2.0}
    logprobs = {
        "content": [{"token_id": first, "logprob": -1.0}, {"token_id": last, "logprob": -1.0, "top_logprobs": [other]}]
    }
    assert shown(t, "é", logprobs=logprobs)["content"][1]["top_logprobs"][0]["token"] == "è"


@pytest.mark.rule("4.21")
@pytest.mark.parametrize(
    ("request_fields", "count"),
    [
        ({}, 3),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 2}, 2),
        ({"logprobs": True, "top_logprobs": -1}, 3),
        ({"logprobs": True, "top_logprobs": 9}, 3),
    ],
)
def test_alternatives_are_cut_to_what_the_request_asked(t, request_fields, count):
    content = shown(t, "A", request_fields, alternatives="BCD")["content"]
    assert len(content[0]["top_logprobs"]) == count


def test_logprobs_that_the_request_refused_are_null(t):
    body = t.chat("A", {"logprobs": False}, logprobs=entries(t, "A"))
    assert body["choices"][0]["logprobs"] is None


def test_minus_infinity_is_a_number_that_json_can_say(t):
    logprobs = {"content": [{"token_id": 65, "logprob": float("-inf")}]}
    body = t.derenderer.derender_chat({"generate_response": {"choices": [{"token_ids": [65], "logprobs": logprobs}]}})
    assert body["choices"][0]["logprobs"]["content"][0]["logprob"] == -9999.0


@pytest.mark.parametrize(
    "entry",
    [
        {"logprob": -1.0},
        {"token_id": 999, "logprob": -1.0},
        {"token": "token_id:999", "logprob": -1.0},
        {"token_id": 65, "logprob": -1.0, "top_logprobs": [{"token_id": -1, "logprob": -1.0}]},
    ],
)
def test_an_entry_that_names_no_token_of_the_model_is_refused_by_place(t, entry):
    with pytest.raises(InputError) as error:
        shown(t, "ab", logprobs={"content": [{"token_id": 65, "logprob": -1.0}, entry]})
    assert error.value.param == "generate_response.choices.0.logprobs.content.1"


def streamed(t, pieces, endpoint="chat", request=None):
    state, found = None, []
    step = t.derenderer.derender_chat_chunk if endpoint == "chat" else t.derenderer.derender_completion_chunk
    for piece in pieces:
        logprobs = {"content": [{"token_id": token_id, "logprob": -0.5} for token_id in piece]}
        body = {
            "stream": True,
            "generate_chunk": {"choices": [{"token_ids": piece, "logprobs": logprobs}]},
            "stream_state": state,
            f"{endpoint}_request": request,
        }
        answer = json.loads(json.dumps(step(body)))
        state = answer["stream_state"]
        found.append(answer["chunk"]["choices"][0]["logprobs"])
    return found


@pytest.mark.rule("5.9")
def test_logprobs_of_a_chunk_cover_exactly_its_tokens_across_character_borders(t):
    pieces = [[token_id] for token_id in t.ids("a😀b")]
    found = [chunk["content"] for chunk in streamed(t, pieces)]
    assert [len(content) for content in found] == [1] * 6
    assert [content[0]["token"] for content in found] == ["a", "", "", "", "😀", "b"]
    assert [content[0]["bytes"] for content in found] == [[97], [240], [159], [152], [128], [98]]


def test_chunks_whose_text_is_held_back_have_their_logprobs_too(talk):
    t = talk()
    ids = t.ids(t.call)
    body = {
        "stream": True,
        "generate_chunk": {
            "choices": [
                {"token_ids": ids[:3], "logprobs": {"content": [{"token_id": i, "logprob": -1.0} for i in ids[:3]]}}
            ]
        },
        "prompt_token_ids": [65],
        "chat_request": t.request(),
    }
    choice = t.derenderer.derender_chat_chunk(body)["chunk"]["choices"][0]
    assert choice["delta"] == {"role": "assistant"}
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["<tool_call>", "\n", "{"]


# -- completions -------------------------------------------------------------------------------------------------------


def completed(t, text, request=None, alternatives=()):
    choice = {"token_ids": t.ids(text), "logprobs": entries(t, text, alternatives)}
    body = {"generate_responses": [{"choices": [choice]}], "completion_request": request}
    return t.derenderer.derender_completion(body)["choices"][0]["logprobs"]


@pytest.mark.rule("4.14")
def test_completion_logprobs_are_parallel_lists(t):
    assert completed(t, "ab", {"logprobs": 1}, "xy") == {
        "text_offset": [0, 1],
        "token_logprobs": [-0.5, -0.5],
        "tokens": ["a", "b"],
        "top_logprobs": [{"a": -0.5, "x": -2.0}, {"b": -0.5, "x": -2.0}],
    }


def test_completion_logprobs_show_the_sampled_token_among_the_alternatives_always(t):
    assert completed(t, "a", {"logprobs": 0}, "xy")["top_logprobs"] == [{"a": -0.5}]
    assert completed(t, "a", {}, "xy")["top_logprobs"] == [{"a": -0.5, "x": -2.0, "y": -3.0}]


def test_offsets_count_characters_and_a_character_belongs_to_the_token_that_completes_it(t):
    found = completed(t, "é!")
    assert found["tokens"] == ["", "é", "!"]
    assert found["text_offset"] == [0, 0, 1]


@pytest.mark.rule("5.9")
def test_text_offset_is_absolute_over_a_stream(t):
    # vllm-project/vllm#55029
    pieces = [t.ids("Hel") + t.ids("lo"), t.ids(" wor") + t.ids("ld")]
    found = streamed(t, pieces, "completion", {"logprobs": 1})
    assert [chunk["text_offset"] for chunk in found] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10]]


def test_text_offset_of_tokens_of_several_characters():
    from derender_server import Derenderer

    derenderer = Derenderer.from_pretrained("demo")
    ids = [derenderer.model.tokenizer.encode(text) for text in ("The", " quick", " brown")]
    assert all(len(one) >= 1 for one in ids)
    state, offsets, texts = None, [], []
    for piece in ids:
        logprobs = {"content": [{"token_id": token_id, "logprob": -1.0} for token_id in piece]}
        body = {
            "stream": True,
            "generate_chunk": {"choices": [{"token_ids": piece, "logprobs": logprobs}]},
            "stream_state": state,
        }
        answer = derenderer.derender_completion_chunk(body)
        state = answer["stream_state"]
        offsets += answer["chunk"]["choices"][0]["logprobs"]["text_offset"]
        texts += answer["chunk"]["choices"][0]["logprobs"]["tokens"]
    expected = [sum(map(len, texts[:at])) for at in range(len(texts))]
    assert offsets == expected
