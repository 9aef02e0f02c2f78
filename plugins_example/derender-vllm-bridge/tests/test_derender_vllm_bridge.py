"""vLLM's parsers behind the hooks: the same answer streamed, at every cut, as at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from derender_vllm_bridge import source
from derender_vllm_bridge.vllm_api import BridgeError

from derender_core import (
    Delta,
    Message,
    ModelTokenizer,
    ParseContext,
    Parser,
    Pipeline,
    Prompt,
    Special,
    Stream,
    Tool,
    ToolCall,
    fold_message,
    make_parser,
    merge_events,
)
from derender_core.testing import all_cuts, event_faults, feed

TOOLS = (Tool("ring", {"type": "object", "properties": {"times": {"type": "integer"}}}), Tool("stop"))
TAGGED = 'Yes. <tool_call>\n{"name": "ring", "arguments": {"times": 2, "who": "Zoë 🦜"}}\n</tool_call>'
TWO = TAGGED + '<tool_call>{"name": "stop", "arguments": {}}</tool_call>'
RING = ToolCall("ring", '{"times": 2, "who": "Zoë 🦜"}')
NUMBERED = 'Yes. <|call|>ring:0{"times": 2}<|call|>stop:1{"a": {"b": []}}'


def parser(slot: str, name: str) -> Parser:
    return make_parser(slot, f"vllm:{name}", source.load_parser(slot, name))  # type: ignore[arg-type]


def context(mode: str = "whole", **fields: object) -> ParseContext:
    return ParseContext(**{"tools": TOOLS, "stream_tool_calls": mode, **fields})  # type: ignore[arg-type]


def whole(text: str, finish_reason: str = "stop") -> Delta:
    return Delta(text, final=True, finish_reason=finish_reason)


def streamed(parser: Parser, output: Delta, context: ParseContext) -> list[Message]:
    """The messages of all cuts, with the state through JSON at every step and well-formed events."""
    messages = []
    for cut in all_cuts(output):
        trace = feed(parser, cut, context)
        assert event_faults(trace.events, complete=context.stream_tool_calls == "whole") == [], trace.report()
        messages.append(fold_message(trace.events))
    return messages


def test_what_vllm_has_is_listed() -> None:
    assert {"numbered", "tagged"} <= set(source.list_parsers("tool"))
    assert {"buffering", "think"} <= set(source.list_parsers("reasoning"))


# -- tool parsers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Nothing to call.", Message("Nothing to call.")),
        (TAGGED, Message("Yes. ", tool_calls=(RING,))),
        (TWO, Message("Yes. ", tool_calls=(RING, ToolCall("stop", "{}")))),
    ],
)
def test_calls_are_the_same_at_every_cut(output: str, message: Message, mode: str) -> None:
    tagged = parser("tool", "tagged")
    assert fold_message(tagged.extract(whole(output), context())) == message
    assert all(found == message for found in streamed(tagged, whole(output), context(mode)))


def test_arguments_are_streamed_as_they_come() -> None:
    tagged = parser("tool", "tagged")
    step = tagged.parse_delta(None, Delta(TAGGED[: TAGGED.index(', "who')]), context("arguments"))
    assert [type(event).__name__ for event in merge_events(step.events)] == [
        "Text",
        "ToolCallStart",
        "ToolCallArguments",
    ]
    held = tagged.parse_delta(None, Delta(TAGGED[: TAGGED.index(', "who')]), context("whole"))
    assert [type(event).__name__ for event in merge_events(held.events)] == ["Text"]


@pytest.mark.parametrize("mode", ["whole", "arguments"])
def test_a_call_without_its_end_marker_counts_when_the_output_ended_by_itself(mode: str) -> None:
    output = TAGGED.removesuffix("\n</tool_call>")
    for message in streamed(parser("tool", "tagged"), whole(output), context(mode)):
        assert message.tool_calls == (RING,)
    for message in streamed(parser("tool", "tagged"), whole(output[:-9], "length"), context(mode)):
        assert message.tool_calls == ()


def test_markers_that_are_special_tokens_are_asked_for() -> None:
    assert parser("tool", "tagged").special_tokens(context()) == ("</tool_call>", "<tool_call>")
    assert parser("tool", "numbered").special_tokens(context()) == ("<|call|>",)


@pytest.mark.parametrize("mode", ["whole", "arguments"])
def test_ids_are_kept_only_when_the_model_wrote_them(mode: str) -> None:
    message = Message(
        "Yes. ", tool_calls=(ToolCall("ring", '{"times": 2}', "ring:0"), ToolCall("stop", '{"a": {"b": []}}', "stop:1"))
    )
    numbered = parser("tool", "numbered")
    assert fold_message(numbered.extract(whole(NUMBERED), context())) == message
    assert all(found == message for found in streamed(numbered, whole(NUMBERED), context(mode)))
    assert all(
        call.id is None for call in fold_message(parser("tool", "tagged").extract(whole(TWO), context())).tool_calls
    )


def test_a_malformed_call_is_text_and_a_cut_one_is_nothing() -> None:
    numbered = parser("tool", "numbered")
    output = 'Yes. <|call|>ring:0{"times"'
    assert fold_message(numbered.extract(whole(output), context())) == Message(output)
    assert fold_message(numbered.extract(whole(output, "length"), context())) == Message("Yes. ")


def test_token_ids_of_special_tokens_are_the_models(model: Path) -> None:
    tokenizer = ModelTokenizer.load(model)
    stream = Stream(tokenizer, Pipeline(parser("tool", "numbered")), context("arguments"))
    ids = tokenizer.encode(NUMBERED)
    events = [event for token_id in ids for event in stream.push([token_id])]
    message = fold_message([*events, *stream.push([], final=True, finish_reason="stop")])
    assert [call.name for call in message.tool_calls] == ["ring", "stop"]
    assert message.content == "Yes. "


def test_a_state_from_outside_is_checked() -> None:
    assert parser("tool", "tagged").check_state({"deltas": [[1, 2]]})


# -- reasoning parsers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("<think>Hm.</think>Yes.", Message("Yes.", "Hm.")),
        ("Hm.</think>Yes.", Message("Yes.", "Hm.")),
        ("Hm.", Message(None, "Hm.")),
    ],
)
def test_reasoning_is_the_same_at_every_cut(output: str, message: Message) -> None:
    think = parser("reasoning", "think")
    assert fold_message(think.extract(whole(output), context())) == message
    assert all(found == message for found in streamed(think, whole(output), context()))


def test_the_prompt_tells_whether_reasoning_is_over() -> None:
    think = parser("reasoning", "think")
    assert think.prompt_opens_reasoning(Prompt("<|im_start|>user\nhi<think>"), context()) is True
    assert think.prompt_opens_reasoning(Prompt("</think><|im_start|>assistant\n"), context()) is None
    assert think.prompt_opens_reasoning(Prompt("<think>\n\n</think>\n\n"), context()) is False
    assert think.prompt_opens_reasoning(None, context()) is None
    off = context(template_kwargs={"thinking": False})
    assert think.prompt_opens_reasoning(Prompt("x"), off) is False


@pytest.mark.parametrize(
    ("output", "reasoning_open", "message"),
    [
        ("<think>Hm.</think>Yes <think>.", None, Message("Yes <think>.", "Hm.")),
        ("Hm.</think>Yes.", True, Message("Yes.", "Hm.")),
        ("Hm.</think>", True, Message(None, "Hm.")),
        ("Hm, cut", True, Message(None, "Hm, cut")),
        ("Just an answer.", None, Message("Just an answer.")),
        ("Just an answer.", False, Message("Just an answer.")),
    ],
)
def test_what_a_parser_holds_back_is_not_lost(output: str, reasoning_open: bool | None, message: Message) -> None:
    buffering = parser("reasoning", "buffering")
    given = context(reasoning_open=reasoning_open)
    assert fold_message(buffering.extract(whole(output), given)) == message
    assert all(found == message for found in streamed(buffering, whole(output), given))


def test_a_stream_that_never_left_reasoning_gets_the_fallback_of_the_parser() -> None:
    buffering = parser("reasoning", "buffering")
    assert buffering.special_tokens(context()) == ("</think>", "<think>")
    step = buffering.parse_delta(None, Delta("<think>"), context())
    step = buffering.parse_delta(step.state, Delta("", final=True), context())
    assert fold_message(step.events) == Message("(nothing)")


def test_where_the_prompt_ended_reasoning_all_is_answer() -> None:
    think = parser("reasoning", "think")
    over = context(reasoning_open=False)
    mark = (Special(2, 10, 9),)
    assert fold_message(think.extract(whole("a b"), over)) == Message("a b")
    (event,) = think.parse_delta(None, Delta("a <marker>", mark), over).events
    assert event.specials == mark  # type: ignore[union-attr]


def test_answers_keep_their_special_tokens_for_the_tool_parser() -> None:
    think = parser("reasoning", "think")
    step = think.parse_delta(None, Delta("Hm.</think>"), context())
    (event,) = think.parse_delta(step.state, Delta("<|call|>", (Special(0, 8, 300),)), context()).events
    assert event.specials == (Special(0, 8, 300),)  # type: ignore[union-attr]
    events = think.extract(Delta("a</think>b<|call|>", (Special(10, 18, 300),), final=True), context())
    assert events[-1].specials == (Special(1, 9, 300),)  # type: ignore[union-attr]


# -- set-up ------------------------------------------------------------------------------------------------------------

OLD_STYLE = """
from vllm.entrypoints.openai.protocol import DeltaMessage as NewMessage
from vllm.reasoning import ReasoningParserManager

class DeltaMessage(NewMessage):
    reasoning_content: str | None = None

@ReasoningParserManager.register_module("old_style")
class OldStyle:
    def __init__(self, tokenizer):
        pass
    def is_reasoning_end(self, input_ids):
        return False
    def extract_reasoning_content(self, model_output, request):
        reasoning, _, content = model_output.partition("|")
        return reasoning, content
    def extract_reasoning_content_streaming(self, previous_text, current_text, delta_text, *token_ids):
        if delta_text == "|":
            return None
        return DeltaMessage(**{"content" if "|" in previous_text else "reasoning_content": delta_text})
"""


def test_parsers_of_plugin_files_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old_style.py"
    file.write_text(OLD_STYLE, encoding="utf-8")
    monkeypatch.setenv("DERENDER_VLLM_REASONING_PARSER_PLUGIN", str(file))
    assert "old_style" in source.list_parsers("reasoning")
    old = parser("reasoning", "old_style")
    assert fold_message(old.extract(whole("Hm.|Yes."), context())) == Message("Yes.", "Hm.")
    assert all(found == Message("Yes.", "Hm.") for found in streamed(old, whole("Hm.|Yes."), context()))


LATE = """
from vllm.entrypoints.openai.protocol import DeltaFunctionCall, DeltaMessage, DeltaToolCall
from vllm.tool_parsers import ToolParser, ToolParserManager

@ToolParserManager.register_module("late")
class LateToolParser(ToolParser):
    skip_reasoning_parsing = False

    def extract_tool_calls_streaming(self, previous_text, current_text, *others):
        assert self.skip_reasoning_parsing
        self.name, _, self.arguments = current_text.partition(":")

    def finish_streaming(self):
        function = DeltaFunctionCall(name=self.name, arguments=self.arguments)
        return DeltaMessage(tool_calls=[DeltaToolCall(index=0, function=function)])
"""


@pytest.mark.parametrize("mode", ["whole", "arguments"])
def test_a_tool_parser_that_says_all_at_the_end_is_heard(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"late_{mode}.py"
    file.write_text(LATE, encoding="utf-8")
    monkeypatch.setenv("DERENDER_VLLM_TOOL_PARSER_PLUGIN", str(file))
    expected = Message(tool_calls=(ToolCall("ring", '{"a": 1}'),))
    assert "late" in source.list_parsers("tool")
    assert all(found == expected for found in streamed(parser("tool", "late"), whole('ring:{"a": 1}'), context(mode)))


@pytest.mark.parametrize("content", [None, "", "1 / 0"])
def test_a_plugin_file_that_gives_nothing_is_an_error(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plugin.py"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    monkeypatch.setenv("DERENDER_VLLM_TOOL_PARSER_PLUGIN", os.pathsep.join([str(file), ""]))
    with pytest.raises(BridgeError, match=r"DERENDER_VLLM_TOOL_PARSER_PLUGIN.*plugin\.py"):
        source.list_parsers("tool")


def test_without_a_tokenizer_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.delenv("DERENDER_VLLM_TOKENIZER")
    monkeypatch.delenv("DERENDER_MODEL", raising=False)
    with pytest.raises(BridgeError, match="set DERENDER_VLLM_TOKENIZER"):
        source.load_parser("tool", "tagged")
    monkeypatch.setenv("DERENDER_MODEL", str(model))
    assert source.load_parser("tool", "tagged")
