"""Stop tokens and stop strings, one-shot and streaming: WIRE.md sections 4.5, 4.6 and 5.10."""

from __future__ import annotations

import pytest

from derender_core.errors import InputError

END = "<|im_end|>"


@pytest.fixture
def t(talk):
    return talk(None, None, model={"generation_config": {"eos_token_id": [259, 257]}})


def ended(t, output, request=None, **choice):
    """Content and stop_reason, one-shot and streamed, which must agree."""
    whole = t.chat(output, request or {}, **choice)["choices"][0]
    found = whole["message"]["content"], whole["stop_reason"]
    for size in (1, 2, 100):
        choices = [answer["chunk"]["choices"][0] for answer in t.chunks(output, request or {}, size=size, **choice)]
        text = "".join(body["delta"].get("content", "") for body in choices)
        ends = [(body["finish_reason"], body["stop_reason"]) for body in choices if body["finish_reason"] is not None]
        assert (text or None, ends) == (found[0], [(whole["finish_reason"], found[1])])
    return found


@pytest.mark.rule("4.5")
def test_the_models_end_token_is_no_text_and_no_stop_reason(t):
    assert ended(t, f"Hi{END}") == ("Hi", None)


@pytest.mark.rule("4.5")
def test_another_end_token_of_the_model_is_reported(t):
    assert ended(t, "Hi</s>") == ("Hi", 257)


@pytest.mark.rule("4.5")
def test_the_stop_token_that_the_engine_reports_is_no_text(t):
    assert ended(t, "Hi!", stop_reason=t.ids("!")[0]) == ("Hi", t.ids("!")[0])


@pytest.mark.rule("4.5")
def test_a_stop_token_of_the_request_is_no_text(t):
    assert ended(t, "Hi!", {"stop_token_ids": t.ids("!")}) == ("Hi", t.ids("!")[0])


@pytest.mark.rule("4.5")
def test_a_stop_token_is_text_where_the_request_includes_it(t):
    request = {"stop_token_ids": t.ids("!"), "include_stop_str_in_output": True}
    assert ended(t, "Hi!", request) == ("Hi!", t.ids("!")[0])


def test_a_stop_token_inside_the_text_is_text(t):
    assert ended(t, "a!b", {"stop_token_ids": t.ids("!")}) == ("a!b", None)


def test_with_another_finish_reason_the_last_token_is_text(t):
    assert ended(t, "Hi!", {"stop_token_ids": t.ids("!")}, finish_reason="length") == ("Hi!", None)


@pytest.mark.rule("4.5")
def test_ignore_eos_makes_the_end_token_an_ordinary_token(t):
    request = {"ignore_eos": True, "skip_special_tokens": False}
    assert ended(t, f"Hi{END}", request) == (f"Hi{END}", None)


def test_an_end_token_is_left_out_with_skip_special_tokens_false_too(t):
    assert ended(t, f"Hi{END}", {"skip_special_tokens": False}) == ("Hi", None)


@pytest.mark.rule("4.6")
def test_the_stop_string_that_the_engine_reports_cuts_the_text(t):
    whole = t.chat("one\n\ntwo", {}, stop_reason="\n\n")["choices"][0]
    assert (whole["message"]["content"], whole["stop_reason"]) == ("one", "\n\n")


def test_a_stop_string_that_only_the_engine_knew_of_ends_the_last_chunk_of_a_stream(t):
    chunks = t.chunks([t.ids("one"), t.ids(" \n\ntwo")], {}, stop_reason="\n\n")
    assert [answer["chunk"]["choices"][0]["delta"]["content"] for answer in chunks] == ["one", " "]
    assert chunks[-1]["chunk"]["choices"][0]["stop_reason"] == "\n\n"


@pytest.mark.rule("4.6")
def test_a_stop_string_of_the_request_cuts_the_text_and_is_the_stop_reason(t):
    assert ended(t, "one STOP", {"stop": "STOP"}) == ("one ", "STOP")


@pytest.mark.rule("4.6")
def test_of_several_stop_strings_the_one_that_ends_first_counts(t):
    assert ended(t, "a--b##", {"stop": ["##", "--"]}) == ("a", "--")


@pytest.mark.rule("4.6")
def test_a_stop_string_is_kept_where_the_request_includes_it(t):
    request = {"stop": ["STOP"], "include_stop_str_in_output": True}
    assert ended(t, "one STOP", request) == ("one STOP", "STOP")


@pytest.mark.rule("4.6")
def test_a_stop_string_within_min_tokens_does_not_count(t):
    assert ended(t, "ab##cd##", {"stop": ["##"], "min_tokens": 5}) == ("ab##cd", "##")


@pytest.mark.rule("5.10")
def test_text_that_only_begins_like_a_stop_string_is_released(t):
    assert ended(t, "a STO b ST", {"stop": ["STOP"]}) == ("a STO b ST", None)


@pytest.mark.rule("4.6")
def test_a_stop_string_that_overlaps_itself_is_found(t):
    assert ended(t, "aaab", {"stop": ["aab"]}) == ("a", "aab")


@pytest.mark.rule("4.6")
@pytest.mark.parametrize("finish_reason", ["length", "abort", "stop"])
def test_an_engine_that_cannot_see_text_is_not_asked_whether_a_stop_string_ended_it(t, finish_reason):
    body = t.chat("a##b", {"stop": ["##"]}, finish_reason=finish_reason)["choices"][0]
    assert (body["message"]["content"], body["stop_reason"], body["finish_reason"]) == ("a", "##", "stop")
    assert ended(t, "a##b", {"stop": ["##"]}, finish_reason=finish_reason) == ("a", "##")


@pytest.mark.rule("4.6")
def test_a_stop_string_goes_before_the_stop_token_that_came_later(t):
    assert ended(t, f"a##b{END}", {"stop": ["##"]}) == ("a", "##")
    assert ended(t, "a##b!", {"stop": ["##"], "stop_token_ids": t.ids("!")}) == ("a", "##")


@pytest.mark.rule("5.10")
def test_at_a_stop_string_a_stream_ends_and_later_chunks_are_empty(t):
    chunks = t.chunks("one##two", {"stop": ["##"]}, finish_reason="length")
    choices = [answer["chunk"]["choices"][0] for answer in chunks]
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["stop"] + [None] * 3
    assert choices[4]["stop_reason"] == "##"
    assert [choice["delta"] for choice in choices[5:]] == [{}] * 3


@pytest.mark.rule("5.10")
def test_what_a_parser_holds_back_comes_out_at_the_stop_string(talk):
    t = talk()
    deltas = t.deltas("</think>Is 1 <tool_ca## more", t.request(stop=["##"]), finish_reason="length")
    assert [delta["content"] for delta in deltas if "content" in delta][-1] == " <tool_ca"
    assert deltas[-len(" more") :] == [{}] * len(" more")


@pytest.mark.rule("5.10")
def test_streaming_holds_back_what_may_be_a_stop_string_and_no_more(t):
    deltas = t.deltas("ab STOx", {"stop": ["STOP"]})
    assert [delta.get("content", "") for delta in deltas] == ["a", "b", " ", "", "", "", "STOx"]


@pytest.mark.rule("5.10")
def test_after_a_stop_string_a_stream_says_nothing_more(t):
    assert t.streamed("one##two", {"stop": ["##"]})["content"] == "one"


def test_the_wanted_part_of_the_last_token_is_streamed(talk):
    # ggml-org/llama.cpp#9867: the last token holds wanted text and the stop string
    t = talk(None, None)
    chunks = [t.ids("What"), t.ids(" color"), t.ids("?\n")]
    assert t.streamed(chunks, {"stop": ["\n"]}, stop_reason="\n")["content"] == "What color?"


@pytest.mark.rule("4.6", "5.10")
def test_stop_strings_inside_reasoning_and_calls_cut_there(talk):
    t = talk()
    message = t.message("<think>\nfirst ## second", t.request(stop=["##"]))
    assert (message["reasoning"], message["content"]) == ("first ", None)
    cut = t.chat(t.call, t.request(stop=["Oslo"]))["choices"][0]
    assert "tool_calls" not in cut["message"]
    assert cut["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "param"), [({"stop": ""}, "stop"), ({"stop": ["a", ""]}, "stop"), ({"min_tokens": -1}, "min_tokens")]
)
def test_stop_fields_that_make_no_sense_are_refused_by_name(t, fields, param):
    with pytest.raises(InputError) as error:
        t.chat("Hi", fields)
    assert error.value.param == f"chat_request.{param}"
