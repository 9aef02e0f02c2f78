"""Formats of control tokens from token ids: a token is a marker, the same characters from other tokens are text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from derender_core import (
    Message,
    ModelTokenizer,
    ParseContext,
    Pipeline,
    Stream,
    Tool,
    ToolCall,
    fold_message,
    load_parser,
)

TOKENS = [
    *("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"),
    *("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
    *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>"),
    *("<|END_RESPONSE|>", "<eos>"),
]
TOOLS = (Tool("ring", {"type": "object"}),)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ModelTokenizer:
    """A token for each byte, and the control tokens."""
    alphabet = {char: at for at, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in TOKENS])
    directory: Path = tmp_path_factory.mktemp("model")
    made.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>"}), encoding="utf-8")
    return ModelTokenizer.load(directory)


def token_ids(tokenizer: ModelTokenizer, text: str) -> list[int]:
    """The ids of a text in which ¤ stands in front of what only looks like a marker."""
    ids: list[int] = []
    for number, part in enumerate(text.split("¤")):
        head, rest = (part[:1], part[1:]) if number else ("", part)
        ids += [*tokenizer.encode(head), *tokenizer.encode(rest)]
    return ids


OUTPUTS = {
    ("openai", "openai_gptoss"): (
        "<|channel|>analysis<|message|>not ¤<|end|> yet é<|end|><|start|>assistant"
        '<|channel|>commentary to=functions.ring <|constrain|>json<|message|>{"s": "¤<|call|>"}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>See ¤<|channel|>.<|return|>"
    ),
    ("kimi_k3", "kimi_k3"): (
        "<|open|>think<|sep|>not ¤<|end|> yet é<|close|>think<|sep|><|open|>response<|sep|>See ¤<|channel|>."
        '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="ring" index="1"<|sep|>'
        '<|open|>argument key="s" type="string"<|sep|>¤<|call|><|close|>argument<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
    ),
    ("mistral", "mistral"): (
        '[THINK]not ¤<|end|> yet é[/THINK]See ¤<|channel|>.[TOOL_CALLS]ring[ARGS]{"s": "¤<|call|>"}<eos>'
    ),
    ("cohere_command3", "cohere_command3"): (
        "<|START_THINKING|>not ¤<|end|> yet é<|END_THINKING|><|START_RESPONSE|>See ¤<|channel|>.<|END_RESPONSE|>"
        '<|START_ACTION|>[{"tool_name": "ring", "parameters": {"s": "¤<|call|>"}}]<|END_ACTION|><eos>'
    ),
}


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("names", OUTPUTS, ids=lambda names: names[0])
def test_streams(tokenizer: ModelTokenizer, names: tuple[str, str], size: int, choice: str) -> None:
    pipeline = Pipeline(load_parser("tool", names[0]), load_parser("reasoning", names[1]))
    context = ParseContext(tools=TOOLS, tool_choice=choice)
    ids = token_ids(tokenizer, OUTPUTS[names])
    state = None
    events = []
    for at in range(0, len(ids), size):
        stream = Stream(tokenizer, pipeline, context, prompt_token_ids=[] if state is None else None, state=state)
        events += stream.push(ids[at : at + size])
        state = json.loads(json.dumps(stream.state))
    stream = Stream(tokenizer, pipeline, context, state=state)
    events += stream.push([], final=True, finish_reason="stop")
    message = fold_message(events)
    call = message.tool_calls[0]
    assert json.loads(call.arguments) == {"s": "<|call|>"}
    assert message == Message("See <|channel|>.", "not <|end|> yet é", (ToolCall("ring", call.arguments, call.id),))
    assert stream.reasoning_tokens == len("not <|end|> yet é".encode())
