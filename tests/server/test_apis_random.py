"""Outputs of any shape, cut anywhere: the events of both APIs add up to what one-shot gives."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender_core.errors import InputError
from derender_server.derenderer import Derenderer

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        '{"name": "f", "arguments": {"a": 1}}',
        '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>',
        '{"name": "f", "arguments": {"a"',
        "\n",
        " ",
        "word",
        "é🦜",
        "STOP",
        "ST",
        "<|im_end|>",
    ]
)
REQUESTS = {
    "responses": {"tools": [{"type": "function", "name": "f"}], "stop": ["STOP"]},
    "messages": {"tools": [{"name": "f"}], "stop_sequences": ["STOP"]},
}


@cache
def derenderer() -> Derenderer:
    return Derenderer.from_pretrained("demo", tool_parser="hermes", reasoning_parser="qwen3", stream_tool_calls="whole")


def messages_content(events):
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks), "one block at a time"
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(
                delta["type"]
            )
            if field:
                block[field] += delta[field]
            else:
                block["json"] = block.get("json", "") + delta["partial_json"]
    for block in blocks:
        if "json" in block:
            block["input"] = json.loads(block.pop("json"))
    return blocks


def streamed(api, pieces, finish_reason):
    call = getattr(derenderer(), f"derender_{api}_chunk")
    state, events, transcript = None, [], {"output": [], "text": ""}
    for at, piece in enumerate(pieces):
        reason = finish_reason if at == len(pieces) - 1 else None
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [{"token_ids": piece, "finish_reason": reason}]},
            "prompt_token_ids": [1],
            "stream_state": state,
            f"{api}_request": REQUESTS[api],
        }
        try:
            answer = call(body)
        except InputError as error:
            if error.param != "transcript":
                raise
            answer = call({**body, "transcript": transcript})
        state = json.loads(json.dumps(answer["stream_state"]))
        events += answer["events"]
        for event in answer["events"]:
            if event["type"].endswith(".delta"):
                transcript["text"] += event["delta"]
            elif event["type"] == "response.output_item.done":
                transcript = {"output": [*transcript["output"], event["item"]], "text": ""}
    return events


@pytest.mark.rule("5.19")
@pytest.mark.parametrize("api", ["responses", "messages"])
@settings(max_examples=150)
@given(texts=st.lists(PIECES, min_size=1, max_size=8), cuts=st.lists(st.integers(1, 9)), data=st.data())
def test_events_add_up_to_the_one_shot_answer(api, texts, cuts, data):
    output, stop, _ = "".join(texts).partition("STOP")  # where an engine ends, too
    ids = derenderer().model.tokenizer.encode(output + stop)
    finish_reason = "stop" if stop else data.draw(st.sampled_from(["stop", "length", "abort"]))
    choice = {"token_ids": ids, "finish_reason": finish_reason}
    body = {
        "generate_response": {"request_id": "r", "choices": [choice]},
        "prompt_token_ids": [1],
        f"{api}_request": REQUESTS[api],
    }
    whole = getattr(derenderer(), f"derender_{api}")(body)
    pieces, at = [], 0
    for size in cuts:
        pieces.append(ids[at : at + size])
        at += size
    events = streamed(api, [*pieces, ids[at:]], finish_reason)
    if api == "responses":
        assert events[-1]["response"]["output"] == whole["output"]
        assert events[-1]["response"]["status"] == whole["status"]
        assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == whole["output"]
    else:
        assert messages_content(events) == whole["content"]
        assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"]
