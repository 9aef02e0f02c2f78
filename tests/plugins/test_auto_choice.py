"""``auto``: the parsers that declare a model as theirs, for what the files of real families say."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from derender_core import (
    Delta,
    MachinePlugin,
    ModelFacts,
    ModelFamily,
    Slot,
    UnsureParserError,
    auto_choice,
    choose_parser,
    hookimpl,
    make_parser,
)
from derender_core.auto_choice import recognizing_parsers
from derender_core.errors import BrokenParserError, ParserError
from derender_core.registry import installed_names, load_parser
from derender_plugins.hermes import Hermes

TOKENIZERS = Path(__file__).resolve().parents[2] / ".cache" / "tokenizers"


class Known(NamedTuple):
    """What tells of a family, with the parsers that are right; None: none recognises it."""

    tool: str | None
    reasoning: str | None
    template: str = ""
    tokens: tuple[str, ...] = ()
    model_type: str = ""
    config: dict[str, Any] = {}  # noqa: RUF012

    @property
    def facts(self) -> ModelFacts:
        config = {"model_type": self.model_type} if self.model_type else {}
        return ModelFacts(self.template, frozenset(self.tokens), config | self.config)


HERMES = (
    "<|im_start|>system\n# Tools\n\nreturn a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{\\"name\\": <function-name>, \\"arguments\\": '
    "<args-json-object>}\n</tool_call><|im_end|>"
)
THINK = "<|im_start|>assistant\n<think>\n{% set content = content.split('</think>')[-1] %}"
CODER = (
    "<|im_start|>system If you choose to call a function ONLY reply:\n<tool_call>\n<function=example_function_name>\n"
    "<parameter=example_parameter_1>\nvalue_1\n</parameter>\n</function>\n</tool_call>"
)
R1 = (
    "{% if '</think>' in content %}<｜User｜><｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"
    "<｜tool▁sep｜>get\n```json\n{}\n```<｜tool▁call▁end｜>{% if add_generation_prompt %}<｜Assistant｜><think>\n"
)
V31 = (
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}<｜User｜><｜Assistant｜></think>"
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
)
V4 = (
    "{%- if not thinking is defined -%}{%- set thinking = false -%}{%- set dsml_token = '｜DSML｜' -%}"
    "<｜Assistant｜></think>{{- '<' + dsml_token + 'tool_calls>' -}}{% for tool in message.tool_calls %}"
)
LLAMA = (
    "<|start_header_id|>Given the following functions, please respond with a JSON for a function call.\n"
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. '
    "{{- '<|python_tag|>' }}"
)
PYTHONIC = (
    "If you decide to invoke any of the function(s), put it in the format of "
    "[func_name1(params_name1=params_value1), func_name2(params)]"
)
GLM = "[gMASK]<sop><|user|><tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>v</arg_value>"
KIMI = "<|im_user|>user<|im_middle|>{{ content }}<|tool_calls_section_begin|><|tool_call_begin|>"
GRANITE = "<|start_of_role|>system<|end_of_role|>respond only with <|tool_call|> followed by a JSON list of tools used."
HARMONY = '"<|start|>assistant<|channel|>analysis<|message|>" <|channel|>commentary json<|message|> <|call|>'

FAMILIES: dict[str, Known] = {
    "Qwen2.5": Known("hermes", None, HERMES, model_type="qwen2"),
    "Hermes 3": Known("hermes", None, "<|im_start|>\n" + HERMES, model_type="llama"),
    "Qwen3": Known("hermes", "qwen3", HERMES + "enable_thinking" + THINK, model_type="qwen3"),
    "Qwen3-VL": Known(
        "hermes", "qwen3", HERMES + THINK, config={"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3"}}
    ),
    "QwQ": Known("hermes", "qwen3", HERMES + THINK, model_type="qwen2"),
    "Qwen3-Coder": Known("qwen3_coder", None, CODER, model_type="qwen3_moe"),
    "Qwen3.5": Known("qwen3_coder", "qwen3", CODER + THINK, model_type="qwen3_5_moe"),
    "MiMo V2": Known("mimo", "qwen3", CODER + THINK, model_type="mimo_v2_flash"),
    "Step 3.5": Known("qwen3_coder", "step3", CODER + THINK, model_type="step3p5"),
    "Nemotron 3": Known("qwen3_coder", "nemotron_v3", CODER + THINK + "enable_thinking", model_type="nemotron_h"),
    "Nemotron Nano 2": Known("nemotron_json", None, "<SPECIAL_10>System\n<TOOLCALL>[...]</TOOLCALL>", (), "nemotron_h"),
    "DeepSeek R1": Known("deepseek_v3", "deepseek_r1", R1, model_type="deepseek_v3"),
    "DeepSeek R1 distilled": Known("deepseek_v3", "deepseek_r1", R1, model_type="qwen2"),
    "DeepSeek V3": Known("deepseek_v3", None, R1.replace("think>", ""), model_type="deepseek_v3"),
    "DeepSeek V3.1": Known("deepseek_v31", "deepseek_v3", V31, model_type="deepseek_v3"),
    "DeepSeek V3.2-Exp": Known("deepseek_v31", "deepseek_v3", V31, model_type="deepseek_v32"),
    "DeepSeek V3.2": Known("deepseek_v32", "deepseek_v3", model_type="deepseek_v32"),
    "DeepSeek V4": Known("deepseek_v4", "deepseek_v4", model_type="deepseek_v4"),
    "DeepSeek V4 with a template": Known("deepseek_v4", "deepseek_v4", V4, model_type="deepseek_v4"),
    "DeepSeek V4.1 with a template": Known("deepseek_v41", "deepseek_v4", V4.replace("tool_calls>", " calls>")),
    "DeepSeek V3.2 with a template": Known("deepseek_v32", "deepseek_v3", V4.replace("tool_calls>", "function_calls>")),
    "Llama 3.1": Known("llama3_json", None, LLAMA, model_type="llama"),
    "Llama 4": Known("llama3_json", None, LLAMA + "<|header_start|><|eot|>", model_type="llama4"),
    "Llama 4 pythonic": Known("llama4_pythonic", None, PYTHONIC + "<|header_start|>", model_type="llama4"),
    "pythonic": Known("pythonic", None, PYTHONIC + "<|start_header_id|>", model_type="llama"),
    "Mistral": Known("mistral", None, "[INST][/INST][TOOL_CALLS]", model_type="mistral"),
    "Mistral, tekken only": Known("mistral", None, tokens=("[INST]", "[TOOL_CALLS]", "[ARGS]"), model_type="mistral3"),
    "Magistral": Known("mistral", "mistral", "[INST][TOOL_CALLS][THINK][/THINK]", model_type="mistral"),
    "Magistral, tekken only": Known("mistral", "mistral", tokens=("[TOOL_CALLS]", "[THINK]")),
    "Hermes on Nemo": Known("hermes", None, HERMES, ("[TOOL_CALLS]", "[INST]"), "mistral"),
    "GLM-4.6": Known("glm45", "glm45", GLM + "<think></think>/nothink", model_type="glm4_moe"),
    "Kimi K2": Known("kimi_k2", None, KIMI, model_type="kimi_k2"),
    "Kimi K2 Thinking": Known("kimi_k2", "kimi_k2", KIMI + "<think></think>", model_type="kimi_k2"),
    "Kimi K3": Known("kimi_k3", "kimi_k3", tokens=("<|open|>", "<|close|>", "<|sep|>"), model_type="kimi_k3"),
    "gpt-oss": Known("openai", "openai_gptoss", HARMONY, model_type="gpt_oss"),
    "Gemma 4": Known("gemma4", "gemma4", '<|turn>model\n<|channel>thought <|tool_call>call:f{a:<|"|>', (), "gemma4"),
    "FunctionGemma": Known("functiongemma", None, "<start_function_call>call:", model_type="gemma3_text"),
    "Granite 3.1": Known("granite", None, GRANITE, model_type="granite"),
    "Granite 3.2": Known("granite", "granite", GRANITE + "Here is my thought process:", model_type="granite"),
    "Granite 3.3": Known("granite", "granite", GRANITE + "<think></think><response></response>", (), "granite"),
    "Granite 4": Known("hermes", None, "<|start_of_role|>" + HERMES, ("<|tool_call|>",), "granitemoehybrid"),
    "Granite 20B": Known("granite-20b-fc", None, "<function_call>", model_type="gpt_bigcode"),
    "MiniMax M2": Known("minimax_m2", "minimax_m2", "]~b]ai\n<think>\n<minimax:tool_call>", model_type="minimax_m2"),
    "MiniMax M3": Known("minimax_m3", "minimax_m3", "]~b]ai\n<mm:think>]<]minimax[>[<tool_call>", (), "minimax_m3"),
    "Seed-OSS": Known(
        "seed_oss", "seed_oss", "<seed:think><seed:tool_call>\n<function=f>\n<parameter=p>", (), "seed_oss"
    ),
    "ERNIE 4.5": Known("ernie45", "ernie45", HERMES + "<think><response>", model_type="ernie4_5_moe"),
    "Hunyuan A13B": Known("hunyuan_a13b", "hunyuan_a13b", "<tool_calls><think><answer>", model_type="hunyuan_v1_moe"),
    "Hy3": Known(
        "hy3", "hy3", "<tool_calls:opensource><tool_sep:opensource><arg_key:opensource><think:opensource>", (), "hy_v3"
    ),
    "Hy3 preview": Known("hy3", "hy3", "<tool_calls><tool_call><tool_sep><arg_key><think>", (), "hy_v3"),
    "Hy4": Known("hy3", "hy3", "<tool_calls><tool_call><arg_key><think>", model_type="hy_v4"),
    "dots": Known("dots", None, "<|userprompt|><dots_function_call><invoke name=", model_type="dots2"),
    "MiniCPM 5": Known("minicpm5", None, '<|im_start|><function name="f"><param name="k">', model_type="minicpm5"),
    "Jamba": Known("jamba", None, "<tool_calls>", model_type="jamba"),
    "OLMo 3": Known("olmo3", "olmo3", "<|im_start|><function_calls><think></think>", model_type="olmo3"),
    "InternLM3": Known("internlm", None, "<|im_start|>", ("<|action_start|>", "<|plugin|>"), "internlm3"),
    "LFM2": Known("lfm2", None, "<|im_start|>", ("<|tool_call_start|>", "<|tool_call_end|>"), "lfm2"),
    "Phi-4-mini": Known("phi4_mini_json", None, "<|tool|>", ("<|/tool|>", "<|/tool_call|>"), "phi3"),
    "xLAM 2": Known("xlam", None, '[{"name": "tool_call_name", "arguments": {"arg1": "value1"}}]', model_type="llama"),
    "Apertus": Known("apertus", None, "<|assistant_start|>", ("<|tools_prefix|>",), "apertus"),
    "LongCat": Known("longcat", None, "<longcat_tool_call>", model_type="longcat_flash"),
    "Step 3": Known("step3", "step3", "<｜tool_calls_begin｜><steptml:invoke name=<think>", model_type="step3_vl"),
    "Command A": Known(
        "cohere_command3", "cohere_command3", "<|START_THINKING|><|START_ACTION|>", model_type="cohere2"
    ),
    "GigaChat 3": Known("gigachat3", None, "function call<|role_sep|><|message_sep|>", model_type="deepseek_v3"),
    # no tools, no reasoning
    "Llama 2": Known(None, None, "[INST] <<SYS>>", ("<s>",), "llama"),
    "Gemma 3": Known(None, None, "<start_of_turn>model\n", ("<start_of_turn>",), "gemma3"),
    "base model": Known(None, None, model_type="qwen3"),
    "nothing": Known(None, None),
}


def chosen(slot: Slot, facts: ModelFacts) -> str | None:
    try:
        return choose_parser(slot, facts).parser.name
    except UnsureParserError:
        assert recognizing_parsers(slot, facts) == []
        return None


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    known = FAMILIES[family]
    assert (chosen("tool", known.facts), chosen("reasoning", known.facts)) == (known.tool, known.reasoning)


def test_every_built_in_parser_is_chosen_for_some_model() -> None:
    declared = {
        (slot, id(parser.plugin))
        for slot in ("tool", "reasoning")
        for parser in (load_parser(slot, name) for name in installed_names(slot))  # type: ignore[arg-type]
        if parser.distribution == "derender" and getattr(parser.plugin, "families", ())
    }
    covered = {("tool", known.tool) for known in FAMILIES.values()} | {
        ("reasoning", known.reasoning) for known in FAMILIES.values()
    }
    ids = {(slot, id(load_parser(slot, name).plugin)) for slot, name in covered if name}  # type: ignore[arg-type]
    missing = {
        load_parser(slot, name)
        for slot in ("tool", "reasoning")
        for name in installed_names(slot)
        if (slot, id(load_parser(slot, name).plugin)) in declared - ids
    }
    assert missing == set()


@pytest.mark.real_tokenizer
@pytest.mark.parametrize(
    ("model", "config", "tool", "reasoning"),
    [
        ("qwen3", {"model_type": "qwen3"}, "hermes", "qwen3"),
        ("deepseek_v3", {"model_type": "deepseek_v3"}, "deepseek_v3", None),
        ("gemma3", {"model_type": "gemma3_text"}, None, None),
        ("llama2", {"model_type": "llama"}, None, None),
        ("llama3_1", {"model_type": "llama"}, None, None),
    ],
)
def test_real_tokenizer_files(model: str, config: dict[str, Any], tool: str | None, reasoning: str | None) -> None:
    read = json.loads((TOKENIZERS / model / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = frozenset(token["content"] for token in read.get("added_tokens_decoder", {}).values())
    facts = ModelFacts(read.get("chat_template") or "", tokens, config)
    assert (chosen("tool", facts), chosen("reasoning", facts)) == (tool, reasoning)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_several_candidates_are_named_with_their_reasons() -> None:
    with pytest.raises(UnsureParserError) as caught:
        choose_parser("tool", ModelFacts(HERMES + KIMI))
    message = str(caught.value)
    assert message.startswith("--tool-call-parser auto is not sure")
    assert "hermes (its chat template has '<tool_call>', '<function-name>')" in message
    assert "kimi_k2 (its chat template has '<|tool_calls_section_begin|>')" in message
    assert message.endswith("Choose one of them with --tool-call-parser.")


def test_no_candidate() -> None:
    with pytest.raises(UnsureParserError) as caught:
        choose_parser("reasoning", ModelFacts("x", config={"model_type": "new"}))
    message = str(caught.value)
    assert "--reasoning-parser auto is not sure: no reasoning parser takes the model for one of its own" in message
    assert "model_type new, with a chat template" in message
    assert "leave the flag out if the model does not reason" in message
    assert "deepseek_r1" in message


def test_aliases_count_once_and_the_format_gives_the_name() -> None:
    found = recognizing_parsers("tool", ModelFacts(HERMES))
    assert [choice.parser.name for choice in found] == ["hermes"]
    assert len(installed_names("tool")) > len(
        {id(load_parser("tool", name).plugin) for name in installed_names("tool")}
    )


class Other:
    """A parser of another distribution."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    @hookimpl
    def derender_parse_delta(self, delta: Delta) -> None:
        """Never called."""

    @hookimpl
    def derender_recognizes(self, model: ModelFacts) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if "<tool_call>" in model.template else None


@pytest.mark.parametrize("broken", [ValueError("broken"), 3, "", BrokenParserError("not there")])
def test_a_parser_that_fails_is_passed_over_with_a_warning(
    broken: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(slot: Slot, name: str) -> Any:
        if name != "other":
            return load_parser(slot, name)
        if isinstance(broken, BrokenParserError):
            raise broken
        return make_parser(slot, name, Other(broken))

    monkeypatch.setattr(auto_choice, "installed_names", lambda slot: ["other", *installed_names(slot)])
    monkeypatch.setattr(auto_choice, "load_parser", load)
    with caplog.at_level(logging.WARNING, "derender"):
        assert choose_parser("tool", ModelFacts(HERMES)).parser.name == "hermes"
    assert "tool parser 'other' cannot say" in caplog.text


def test_a_third_party_parser_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_parser("tool", "other", Other("it looks like mine"))
    monkeypatch.setattr(auto_choice, "installed_names", lambda _: ["hermes", "other"])
    monkeypatch.setattr(
        auto_choice, "load_parser", lambda slot, name: other if name == "other" else load_parser(slot, name)
    )
    with pytest.raises(UnsureParserError, match=r"hermes \(.*other \(it looks like mine\)"):
        choose_parser("tool", ModelFacts(HERMES))


def test_the_hook_is_checked() -> None:
    with pytest.raises(ParserError, match="returned from derender_recognizes 3, not a reason or None"):
        make_parser("tool", "other", Other(3)).recognizes(ModelFacts("<tool_call>"))


# -- declarations ------------------------------------------------------------------------------------------------------


def test_all_that_is_given_must_hold() -> None:
    family = ModelFamily(("A",), ("<a>",), ("<b>",), ("t",), ("a*",), ("ab",))
    good = ModelFacts("x<a>", frozenset("t"), {"model_type": "AC"})
    assert (
        family.recognizes(good) == "its chat template has '<a>' and its vocabulary has 't' and its model_type is 'ac'"
    )
    for bad in (
        ModelFacts("x", frozenset("t"), {"model_type": "ac"}),
        ModelFacts("<a><b>", frozenset("t"), {"model_type": "ac"}),
        ModelFacts("<a>", frozenset(), {"model_type": "ac"}),
        ModelFacts("<a>", frozenset("t"), {"model_type": "b"}),
        ModelFacts("<a>", frozenset("t"), {}),
        ModelFacts("<a>", frozenset("t"), {"model_type": "ac", "text_config": {"model_type": "ab"}}),
    ):
        assert family.recognizes(bad) is None


def test_types_of_models_within() -> None:
    config = {"model_type": "VL", "text_config": {"model_type": "text", "x": {"model_type": 3}}, "y": [1]}
    assert ModelFacts(config=config).types == ("vl", "text")


def test_a_declaration_says_something() -> None:
    with pytest.raises(ValueError, match="A: give template, tokens or types"):
        ModelFamily(("A",), absent=("x",))
    with pytest.raises(ValueError, match="template must be a tuple of texts"):
        ModelFamily(("A",), template="<a>")  # type: ignore[arg-type]


def test_the_first_family_that_fits_gives_the_reason() -> None:
    families = [ModelFamily(("A",), template=("<a>",)), ModelFamily(("B",), types=("b",))]
    parser = make_parser("tool", "x", MachinePlugin(Hermes, families=families))
    assert parser.recognizes(ModelFacts("<a>", config={"model_type": "b"})) == "its chat template has '<a>'"
    assert parser.recognizes(ModelFacts(config={"model_type": "b"})) == "its model_type is 'b'"
    assert parser.recognizes(ModelFacts()) is None
    assert make_parser("tool", "x", MachinePlugin(Hermes)).recognizes(ModelFacts("<a>")) is None
