"""Rendering Anthropic Messages requests: each means a chat request, and gives the ids of that."""

from __future__ import annotations

import pytest

from derender_core.errors import InputError
from derender_server.renderer import Renderer
from derender_server.wire.generate import GenerateRequest

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Weather.", "input_schema": SCHEMA}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather.", "parameters": SCHEMA},
}
USER = {"role": "user", "content": "Hi"}
THINKING = {"enable_thinking": True, "thinking": True}
NO_THINKING = {"enable_thinking": False, "thinking": False}


@pytest.fixture(scope="module")
def renderer():
    return Renderer.from_pretrained("demo", tool_parser="hermes", reasoning_parser="qwen3")


def means(renderer, request, chat):
    """The request gives what the chat request gives, but for the id."""
    rendered = renderer.render_messages({"max_tokens": 9, **request}, request_id="x")
    expected = renderer.render_chat({"max_tokens": 9, **chat}, request_id="x")
    assert rendered.request_id == "msg_x"
    assert rendered.model_copy(update={"request_id": "chatcmpl-x"}) == expected
    GenerateRequest.model_validate(rendered.model_dump())
    return rendered


def text(value):
    return {"type": "text", "text": value, "cache_control": {"type": "ephemeral"}}


def parts(*values):
    return [{"type": "text", "text": value} for value in values]


@pytest.mark.parametrize(
    ("request_", "messages"),
    [
        ({"messages": [USER]}, [USER]),
        ({"messages": [{"role": "user", "content": [text("Hi")]}]}, [USER]),
        (
            {"messages": [{"role": "user", "content": [text("Hi"), text("you")]}]},
            [{**USER, "content": parts("Hi", "you")}],
        ),
        ({"messages": [USER], "system": "Brief."}, [{"role": "system", "content": "Brief."}, USER]),
        (
            {"messages": [USER], "system": [text("a"), text("b")]},
            [{"role": "system", "content": parts("a", "b")}, USER],
        ),
        ({"messages": [USER], "system": ""}, [USER]),
        (
            {"messages": [{"role": "system", "content": "Brief."}, USER]},
            [{"role": "system", "content": "Brief."}, USER],
        ),
        (
            {
                "messages": [
                    USER,
                    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, text("a")]},
                    USER,
                ]
            },
            [USER, {"role": "assistant", "content": "a"}, USER],
        ),
    ],
)
def test_messages(renderer, request_, messages):
    means(renderer, request_, {"messages": messages})


def test_an_answer_of_ours_goes_back_as_it_is(renderer, api_talk):
    t = api_talk("messages")
    answer = t.whole(f"<think>\nhmm\n</think>\n\nLet me look.\n{t.call}<|im_end|>")
    _, said, call = answer["content"]
    means(
        renderer,
        {
            "messages": [
                USER,
                {"role": "assistant", "content": answer["content"]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": call["id"], "content": [text("sunny")]},
                        text("Thanks."),
                    ],
                },
            ],
            "tools": [TOOL],
        },
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "reasoning": "hmm",
                    "content": said["text"],
                    "tool_calls": [
                        {
                            "id": call["id"],
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": call["id"], "name": "get_weather", "content": "sunny"},
                {"role": "user", "content": "Thanks."},
            ],
            "tools": [CHAT_TOOL],
        },
    )


def test_parallel_results_and_texts_keep_their_places(renderer):
    calls = [{"type": "tool_use", "id": f"c{nth}", "name": "get_weather", "input": {"city": "Oslo"}} for nth in (1, 2)]
    content = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
        text("between"),
        {"type": "tool_result", "tool_use_id": "c2", "is_error": True},
    ]
    rendered = means(
        renderer,
        {
            "messages": [USER, {"role": "assistant", "content": calls}, {"role": "user", "content": content}],
            "tools": [TOOL],
        },
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": call["id"],
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": call["input"]},
                        }
                        for call in calls
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "name": "get_weather", "content": "1"},
                {"role": "user", "content": "between"},
                {"role": "tool", "tool_call_id": "c2", "name": "get_weather", "content": "", "is_error": True},
            ],
            "tools": [CHAT_TOOL],
        },
    )
    assert rendered.parse_context.history_tool_call_cnt == 2


def test_a_last_turn_of_the_assistant_is_continued(renderer):
    begun = {"role": "assistant", "content": "The answer is ("}
    rendered = means(renderer, {"messages": [USER, begun]}, {"messages": [USER, begun], "continue_final_message": True})
    prompt = renderer.model.tokenizer.decode(rendered.token_ids, skip_special_tokens=False)
    assert prompt.endswith("The answer is (")


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"temperature": 0.5, "top_p": 0.5, "top_k": 3, "seed": 1}, None),
        ({"tools": [TOOL]}, {"tools": [CHAT_TOOL]}),
        ({"tools": [{**TOOL, "type": "custom"}]}, {"tools": [CHAT_TOOL]}),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tools": [CHAT_TOOL], "tool_choice": "auto"}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": [CHAT_TOOL], "tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": [CHAT_TOOL], "tool_choice": "none"}),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
            },
            {
                "tools": [CHAT_TOOL],
                "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
                "parallel_tool_calls": False,
            },
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            {"chat_template_kwargs": {**THINKING, "thinking_budget": 1024}},
        ),
        ({"thinking": {"type": "adaptive"}}, {"chat_template_kwargs": THINKING}),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            {"chat_template_kwargs": THINKING, "include_reasoning": False},
        ),
        ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": NO_THINKING, "include_reasoning": False}),
        (
            {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": True}, "include_reasoning": False},
        ),
        ({"output_config": {"effort": "high"}}, {"reasoning_effort": "high"}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        ),
        ({"stream": True, "metadata": {"user_id": "u"}, "service_tier": "auto", "unknown": 1}, {"stream": True}),
    ],
)
def test_fields(renderer, fields, chat):
    means(renderer, {"messages": [USER], **fields}, {"messages": [USER], **(fields if chat is None else chat)})


def test_thinking_that_is_turned_off_is_closed_in_the_prompt(renderer):
    rendered = renderer.render_messages({"max_tokens": 9, "messages": [USER], "thinking": {"type": "disabled"}})
    assert rendered.reasoning_ended is True
    assert renderer.render_messages({"max_tokens": 9, "messages": [USER]}).reasoning_ended is False


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [text("a"), {"type": "document"}]}]}, "messages.0.content.1"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}, "messages.0.content.0"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [IMAGE]}]}
                ]
            },
            "messages.0.content.0.content.0",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "{}"}]}
                ]
            },
            "messages.0.content.0.input",
        ),
        ({"system": [IMAGE]}, "system.0"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0"),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "maybe"}}, "thinking.type"),
        ({"stop_sequences": [""]}, "stop_sequences.0"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
        ({"n": 2}, "n"),
        ({"model": "other"}, "model"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_name(renderer, fields, param):
    with pytest.raises(InputError) as error:
        renderer.render_messages({"max_tokens": 9, "messages": [USER], **fields})
    assert error.value.param == param


def test_an_unsupported_type_is_named(renderer):
    with pytest.raises(InputError) as error:
        renderer.render_messages({"max_tokens": 9, "messages": [{"role": "user", "content": [IMAGE]}]})
    assert "a block of type 'image' is not supported here, only text and tool_result" in str(error.value)
