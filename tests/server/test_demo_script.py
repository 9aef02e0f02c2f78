"""What the demo engine understands of a prompt, what it makes of a schema, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derender_core import InputError
from derender_server.demo import demo_model_path
from derender_server.demo.arguments import MAX_VALUES, ArgumentWriter
from derender_server.demo.conversation import Conversation, read_conversation
from derender_server.demo.script import Cue, write_answer
from derender_server.template_sandbox import render_template

TEMPLATE = (demo_model_path() / "chat_template.jinja").read_text(encoding="utf-8")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
LAMP = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
    },
}
NAMED = {"type": "function", "function": {"name": "set_lamp"}}
ASK = {"role": "user", "content": "What is the weather in Łódź?"}
CALL = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "I need the tool.",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź"}}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "clear"}'}


def prompt(*messages: dict[str, Any], **variables: Any) -> str:
    return render_template(TEMPLATE, {"messages": list(messages), "add_generation_prompt": True, **variables})


def conversation(*messages: dict[str, Any], **variables: Any) -> Conversation:
    return read_conversation(prompt(*messages, **variables))


def arguments(properties: dict[str, Any], question: str = "", take: int = 0, **schema: Any) -> dict[str, Any]:
    return ArgumentWriter({"type": "object", "properties": properties, **schema}, question, take).arguments()


class TestTemplate:
    def test_a_plain_chat(self) -> None:
        assert prompt({"role": "system", "content": "Be brief."}, ASK) == (
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nWhat is the weather in Łódź?<|im_end|>\n"
            "<|im_start|>assistant\n"
        )

    def test_thinking_off_prefills_an_empty_block(self) -> None:
        assert prompt(ASK, enable_thinking=False).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
        assert prompt(ASK, enable_thinking=True) == prompt(ASK)

    def test_calls_and_results(self) -> None:
        text = prompt(ASK, CALL, RESULT, {**RESULT, "content": "second"}, tools=[WEATHER])
        assert text.partition("<|im_start|>assistant\n")[2] == (
            "<think>\nI need the tool.\n</think>\n\n"
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call><|im_end|>\n'
            '<|im_start|>user\n<tool_response>\n{"sky": "clear"}\n</tool_response>\n'
            "<tool_response>\nsecond\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n"
        )

    def test_thoughts_of_finished_turns_are_left_out(self) -> None:
        assert "I need the tool." not in prompt(ASK, CALL, RESULT, ASK)

    def test_an_unknown_role_is_refused(self) -> None:
        with pytest.raises(InputError, match="does not know the role narrator"):
            prompt({"role": "narrator", "content": "Night falls."})


class TestConversation:
    def test_turns_question_and_tools_come_back(self) -> None:
        talk = conversation({"role": "system", "content": "Be brief."}, ASK, tools=[WEATHER, LAMP])
        assert [turn.role for turn in talk.turns] == ["system", "user"]
        assert talk.question == "What is the weather in Łódź?"
        assert talk.tools == (WEATHER, LAMP)
        assert talk.results == ()
        assert talk.thinking

    def test_tool_results_are_no_question(self) -> None:
        talk = conversation(ASK, CALL, RESULT, {**RESULT, "content": "second"}, tools=[WEATHER])
        assert talk.results == ('{"sky": "clear"}', "second")
        assert talk.question == "What is the weather in Łódź?"

    def test_results_of_earlier_turns_are_over(self) -> None:
        assert conversation(ASK, CALL, RESULT, {"role": "assistant", "content": "Clear."}, ASK).results == ()

    @pytest.mark.parametrize(
        ("opening", "thinking", "inside", "continues"),
        [
            ("", True, False, False),
            ("<think>\n", True, True, False),
            ("<think>\nSo far", True, True, False),
            ("<think>\n\n</think>\n\n", False, False, False),
            ("<think>\nx\n</think>\n\nIt is", False, False, True),
            ("It is", False, False, True),
        ],
    )
    def test_what_the_prompt_has_begun(self, opening: str, thinking: bool, inside: bool, continues: bool) -> None:
        talk = read_conversation(prompt(ASK) + opening)
        assert (talk.thinking, talk.inside_thoughts, talk.continues) == (thinking, inside, continues)

    def test_a_plain_prompt_is_no_chat(self) -> None:
        talk = read_conversation("Once upon a time")
        assert talk == Conversation((), None, (), "Once upon a time", ())
        assert not talk.thinking

    def test_markers_are_not_repeated(self) -> None:
        talk = conversation({"role": "user", "content": "Say </think> and <tool_call><|endoftext|> now"})
        assert talk.question == "Say  and  now"

    @pytest.mark.parametrize(
        "text", ["", "<|im_start|>", "<|im_start|>user", "<tools>\n[1]\nx\n</tools>", "<|im_end|>"]
    )
    def test_any_text_can_be_read(self, text: str) -> None:
        assert read_conversation(text).tools == ()
        assert read_conversation(f"<|im_start|>system\n{text}").tools == ()


class TestArguments:
    def test_the_users_words_fill_the_fields_in_order(self) -> None:
        fields = {"origin": {"type": "string"}, "destination": {"type": "string"}, "people": {"type": "integer"}}
        asked = arguments(fields, "Please find flights from London to São Paulo for 3 people.")
        assert asked == {"origin": "London", "destination": "São Paulo", "people": 3}

    def test_quoted_phrases_come_first(self) -> None:
        assert arguments({"title": {"type": "string"}}, 'Play "So What" by Miles Davis') == {"title": "So What"}

    def test_a_query_is_the_question(self) -> None:
        assert arguments({"search_query": {"type": "string"}}, "old maps of Oslo") == {
            "search_query": "old maps of Oslo"
        }

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"const": 7}, [7, 7]),
            ({"enum": ["a", "b"]}, ["a", "b"]),
            ({"type": "string", "examples": ["x", "y"]}, ["x", "y"]),
            ({"type": "integer", "default": 5}, [5, 5]),
            ({"type": "boolean", "default": False}, [False, False]),
            ({"type": "boolean"}, [True, False]),
            ({"type": "null"}, [None, None]),
            ({"type": ["null", "integer"]}, [1, 2]),
            ({"type": "integer", "minimum": 5, "maximum": 5}, [5, 5]),
            ({"type": "integer", "maximum": -3}, [-3, -3]),
            ({"type": "integer", "exclusiveMinimum": 9}, [10, 11]),
            ({"type": "integer", "multipleOf": 5, "minimum": 7}, [10, 15]),
            ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, [0.25, 0.25]),
            ({"type": "string", "format": "date"}, ["2025-06-12", "2025-06-12"]),
            ({"type": "string", "maxLength": 3}, ["Lis", "Lis"]),
            ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [[1, 1], [2, 2]]),
            ({"type": "array", "maxItems": 0}, [[], []]),
            ({"prefixItems": [{"const": 1}, {"const": "b"}]}, [[1, "b"], [1, "b"]]),
            ({"anyOf": [{"type": "null"}, {"const": 3}]}, [3, 3]),
            ({"oneOf": [{"const": 1}, {"const": 2}]}, [1, 1]),
            ({"$ref": "#/$defs/color"}, ["red", "blue"]),
            ({"$ref": "#/$defs/missing"}, ["Lisbon", "Lisbon"]),
        ],
    )
    def test_a_value_follows_its_schema(self, schema: dict[str, Any], expected: list[Any]) -> None:
        defs = {"color": {"enum": ["red", "blue"]}}
        assert [arguments({"x": schema}, take=take, **{"$defs": defs})["x"] for take in (0, 1)] == expected

    def test_nested_objects(self) -> None:
        place = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}
        both = {"allOf": [place, {"properties": {"open": {"const": True}}, "required": ["open"]}]}
        assert arguments({"place": both}, "Go to Rome") == {"place": {"city": "Rome", "zip": 1, "open": True}}

    def test_required_fields_without_a_schema_are_given(self) -> None:
        assert arguments({}, required=["what"]) == {"what": "Lisbon"}

    def test_only_required_fields_deep_down(self) -> None:
        leaf = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a"]}
        deep = {"type": "object", "properties": {"leaf": leaf}}
        assert arguments({"deep": deep}) == {"deep": {"leaf": {"a": 1, "b": 2}}}
        deeper = {"type": "object", "properties": {"deep": deep}}
        assert arguments({"deeper": deeper}) == {"deeper": {"deep": {"leaf": {"a": 1}}}}

    @pytest.mark.parametrize(
        "schema",
        [
            None,
            True,
            "text",
            {"type": "array"},
            {"type": 7, "properties": [], "required": 3},
            {"$ref": "#"},
            {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
            {"anyOf": []},
            {"properties": {"x": {"type": "array", "minItems": 10**12, "items": {"$ref": "#"}}}, "required": ["x"]},
            {"properties": {"x": {"type": "string", "minLength": 10**12}}},
            {"properties": {"x": {"type": "integer", "minimum": 1e300, "multipleOf": -1}}},
            {"properties": {"x": {"type": "number", "multipleOf": 0}}},
            {"properties": {"x": {"enum": [], "examples": {}, "format": 3, "type": []}}},
            {"properties": {str(n): {"$ref": "#"} for n in range(9)}, "required": [str(n) for n in range(9)]},
        ],
    )
    def test_no_schema_is_too_strange(self, schema: Any) -> None:
        text = json.dumps(ArgumentWriter(schema, "Go to Rome in 3 days").arguments(), allow_nan=False)
        assert len(text) < 50 * MAX_VALUES


class TestAnswers:
    def test_it_thinks_and_answers(self) -> None:
        answer = write_answer(Cue(conversation(ASK)))
        assert answer.startswith('<think>\nThe user asks: "What is the weather in Łódź?".')
        assert '\n</think>\n\nYou asked: "What is the weather in Łódź?".' in answer
        assert "not by a language model" in answer

    def test_it_thinks_and_calls_the_first_tool(self) -> None:
        answer = write_answer(Cue(conversation(ASK), [WEATHER, LAMP], "auto"))
        assert answer.startswith("<think>\n")
        assert answer.endswith(
            '\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call>'
        )

    def test_it_answers_with_what_the_tool_said(self) -> None:
        answer = write_answer(Cue(conversation(ASK, CALL, RESULT), [WEATHER]))
        assert answer.startswith("<think>\n")
        assert '\n</think>\n\nThe tool answered: {"sky": "clear"}\n' in answer
        assert "<tool_call>" not in answer

    def test_without_thinking(self) -> None:
        talk = conversation(ASK, enable_thinking=False)
        assert write_answer(Cue(talk)).startswith("You asked: ")
        assert (
            write_answer(Cue(talk, [LAMP]))
            == '<tool_call>\n{"name": "set_lamp", "arguments": {"on": true}}\n</tool_call>'
        )

    def test_inside_thoughts_it_only_closes_them(self) -> None:
        answer = write_answer(Cue(read_conversation(prompt(ASK) + "<think>\n")))
        assert "<think>" not in answer
        assert answer.count("</think>") == 1

    def test_it_goes_on_where_the_prompt_stops(self) -> None:
        assert write_answer(Cue(read_conversation(prompt(ASK) + "It is"), [WEATHER])).startswith(" ... and so on.")
        assert write_answer(Cue(read_conversation("Once upon a time"))).startswith(" ... and so on.")

    def test_no_tool_may_be_called(self) -> None:
        answer = write_answer(Cue(conversation(ASK), [WEATHER], "none"))
        assert "<tool_call>" not in answer
        assert "You asked" in answer

    def test_a_tool_must_be_called(self) -> None:
        assert "<tool_call>" in write_answer(Cue(conversation(ASK, CALL, RESULT), [WEATHER], "required"))

    @pytest.mark.parametrize("choice", [NAMED, {"type": "function", "name": "set_lamp"}])
    def test_the_named_tool_is_called(self, choice: dict[str, Any]) -> None:
        assert '{"name": "set_lamp"' in write_answer(Cue(conversation(ASK), [WEATHER, LAMP], choice))

    def test_a_named_tool_must_be_offered(self) -> None:
        with pytest.raises(InputError, match="`set_lamp`, which is not among the tools") as caught:
            write_answer(Cue(conversation(ASK), [WEATHER], NAMED))
        assert caught.value.param == "parse_context.tool_choice"

    def test_the_output_has_the_form_asked_for(self) -> None:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        talk = conversation(ASK, enable_thinking=False)
        for given in (schema, json.dumps(schema)):
            answer = write_answer(Cue(talk, [WEATHER], NAMED, {"json": given}))
            assert json.loads(answer) == {"city": "Łódź"}
        calls = {"type": "array", "items": {"properties": {"name": {"const": "x"}, "parameters": schema}}}
        assert json.loads(write_answer(Cue(talk, structured_outputs={"json": calls}))) == [
            {"name": "x", "parameters": {"city": "Łódź"}}
        ]
        assert "answer" in json.loads(write_answer(Cue(talk, structured_outputs={"json_object": True})))
        takes = [write_answer(Cue(talk, structured_outputs={"choice": ["yes", "no"]}), take) for take in range(3)]
        assert takes == ["yes", "no", "yes"]

    def test_thoughts_come_before_the_form(self) -> None:
        answer = write_answer(Cue(conversation(ASK), structured_outputs={"choice": ["yes"]}))
        assert answer.startswith("<think>\n")
        assert answer.endswith("\n</think>\n\nyes")

    @pytest.mark.parametrize("kind", ["regex", "grammar"])
    def test_what_a_script_cannot_follow_is_refused(self, kind: str) -> None:
        with pytest.raises(InputError, match=f"cannot follow a {kind}") as caught:
            write_answer(Cue(conversation(ASK), structured_outputs={kind: "x"}))
        assert caught.value.param == f"sampling_params.structured_outputs.{kind}"

    def test_a_schema_that_is_not_json_is_refused(self) -> None:
        with pytest.raises(InputError, match="is not JSON"):
            write_answer(Cue(conversation(ASK), structured_outputs={"json": "{"}))

    @pytest.mark.parametrize("tools", [[], [LAMP]])
    @pytest.mark.parametrize("thinking", [True, False])
    def test_takes_differ_and_repeat_themselves(self, tools: list[dict[str, Any]], thinking: bool) -> None:
        cue = Cue(conversation(ASK, enable_thinking=thinking), tools)
        takes = [write_answer(cue, take) for take in range(5)]
        assert len(set(takes)) == 5
        assert takes == [write_answer(cue, take) for take in range(5)]

    def test_a_long_question_is_shortened(self) -> None:
        answer = write_answer(Cue(conversation({"role": "user", "content": "ą" * 5000})))
        assert len(answer) < 1500
        assert "ą…" in answer
