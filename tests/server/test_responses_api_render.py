"""Rendering OpenAI Responses requests: each means a chat request, and gives the ids of that."""

from __future__ import annotations

import pytest

from derender_core.errors import InputError
from derender_server.renderer import Renderer
from derender_server.wire.generate import GenerateRequest

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "name": "get_weather", "description": "Weather.", "parameters": SCHEMA, "strict": True}
CHAT_TOOL = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}
USER = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module")
def renderer():
    return Renderer.from_pretrained("demo", tool_parser="hermes", reasoning_parser="qwen3")


def means(renderer, request, chat):
    """The request gives what the chat request gives, but for the id."""
    rendered = renderer.render_responses(request, request_id="x")
    expected = renderer.render_chat(chat, request_id="x")
    assert rendered.request_id == "resp_x"
    assert rendered.model_copy(update={"request_id": "chatcmpl-x"}) == expected
    GenerateRequest.model_validate(rendered.model_dump())
    return rendered


@pytest.mark.parametrize(
    ("request_", "messages"),
    [
        ({"input": "Hi"}, [USER]),
        ({"input": "Hi", "instructions": "Brief."}, [{"role": "system", "content": "Brief."}, USER]),
        ({"input": [USER]}, [USER]),
        ({"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]}, [USER]),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": "you"}],
                    }
                ]
            },
            [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "you"}]}],
        ),
        (
            {"input": [{"role": "developer", "content": "Brief."}, USER]},
            [{"role": "developer", "content": "Brief."}, USER],
        ),
        (
            {
                "input": [
                    USER,
                    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
                    USER,
                ]
            },
            [USER, {"role": "assistant", "content": "No."}, USER],
        ),
    ],
)
def test_input(renderer, request_, messages):
    means(renderer, request_, {"messages": messages})


def test_an_answer_of_ours_goes_back_as_one_turn(renderer, api_talk):
    t = api_talk("responses")
    answer = t.whole(f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}<|im_end|>")
    reasoning, message, call = answer["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    means(
        renderer,
        {"input": [USER, *answer["output"], result], "tools": [TOOL]},
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "reasoning": "hmm",
                    "content": message["content"][0]["text"],
                    "tool_calls": [
                        {
                            "id": call["call_id"],
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": call["arguments"]},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": call["call_id"], "name": "get_weather", "content": "sunny"},
            ],
            "tools": [CHAT_TOOL],
        },
    )
    assert reasoning["type"] == "reasoning"


def test_parallel_calls_and_their_results(renderer):
    def call(nth):
        return {"type": "function_call", "call_id": f"c{nth}", "name": "get_weather", "arguments": '{"city": "Oslo"}'}

    def result(nth):
        output = [{"type": "input_text", "text": str(nth)}]
        return {"type": "function_call_output", "call_id": f"c{nth}", "output": output}

    calls = [
        {"id": f"c{nth}", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
        for nth in (1, 2)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"c{nth}", "name": "get_weather", "content": str(nth)} for nth in (1, 2)
    ]
    rendered = means(
        renderer,
        {"input": [USER, call(1), call(2), result(1), result(2)], "tools": [TOOL]},
        {"messages": [USER, {"role": "assistant", "content": "", "tool_calls": calls}, *results], "tools": [CHAT_TOOL]},
    )
    assert rendered.parse_context.history_tool_call_cnt == 2


def test_reasoning_of_earlier_turns(renderer):
    answer = {"role": "assistant", "content": "So."}
    for item, expected in [
        ({"content": [{"type": "reasoning_text", "text": "hmm"}], "summary": []}, {"reasoning": "hmm"}),
        (
            {"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]},
            {"reasoning": "a\nb"},
        ),
        ({"summary": [], "encrypted_content": "x"}, {}),
    ]:
        means(
            renderer,
            {"input": [USER, {"type": "reasoning", "id": "rs_1", **item}, answer, USER]},
            {"messages": [USER, {**answer, **expected}, USER]},
        )


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"max_output_tokens": 9}, {"max_completion_tokens": 9}),
        ({"temperature": 0.5, "top_p": 0.5, "top_k": 3, "seed": 1, "stop": "x"}, None),
        ({"tools": [TOOL]}, {"tools": [CHAT_TOOL]}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [CHAT_TOOL], "tool_choice": "required"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "name": "get_weather"}},
            {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        ),
        ({"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [CHAT_TOOL], "parallel_tool_calls": False}),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        (
            {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
            {"response_format": {"type": "json_object"}},
        ),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        (
            {"reasoning": {"effort": "none"}},
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
        ),
        (
            {"reasoning": {"effort": "none"}, "chat_template_kwargs": {"enable_thinking": True}},
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
        ),
        (
            {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2},
            {"logprobs": True, "top_logprobs": 2},
        ),
        ({"top_logprobs": 2}, {}),
        ({"truncation": "auto"}, {"truncate_prompt_tokens": -1}),
        ({"stream": True, "metadata": {"a": "b"}, "store": True, "unknown": 1}, {"stream": True}),
        ({"include_reasoning": False}, {"include_reasoning": False}),
    ],
)
def test_fields(renderer, fields, chat):
    means(renderer, {"input": "Hi", **fields}, {"messages": [USER], **(fields if chat is None else chat)})


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": [5]}, "input.0"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ({"input": [USER, {"type": "file_search_call"}]}, "input.1"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input.0.content.0"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input.0.content.0"),
        ({"input": [{"role": "bot", "content": "x"}]}, "input.0.role"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input.0.arguments"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}]}, "input.0.arguments"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "[]"}]}, "input.0.arguments"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools.0"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools.0.name"),
        ({"input": "x", "tool_choice": "maybe"}, "tool_choice"),
        ({"input": "x", "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice"),
        ({"input": "x", "tool_choice": "required"}, "tool_choice"),
        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "x", "conversation": "conv_1"}, "conversation"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "n": 2}, "n"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "max_output_tokens": 10**9}, "max_output_tokens"),
        ({"input": "x " * 40000}, "input"),
        ({"input": "x", "model": "other"}, "model"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_name(renderer, request_, param):
    with pytest.raises(InputError) as error:
        renderer.render_responses(request_)
    assert error.value.param == param
    assert "messages" not in str(error.value)
    assert "max_tokens" not in str(error.value)


def test_an_unsupported_type_is_named(renderer):
    with pytest.raises(InputError) as error:
        renderer.render_responses({"input": "x", "tools": [{"type": "web_search"}]})
    assert str(error.value) == "tools.0: a tool of type 'web_search' is not supported here, only function; leave it out"
