"""vLLM's parsers under ``vllm:NAME``: through the registry and the server's own classes, with a stand-in for vLLM.

The bridge's own tests look at what it does piece by piece; ``test_plugins_example.py`` has it installed, over HTTP.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from derender_core import BrokenParserError, UnknownParserError, list_parsers, load_parser
from derender_server.derenderer import Derenderer

BRIDGE = Path(__file__).resolve().parent.parent / "plugins_example" / "derender-vllm-bridge"
MODEL = Path(sys.modules["derender_server"].__file__ or "").parent / "demo" / "model"

Install = Callable[..., None]

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź 🦜", "days": 3}}\n</tool_call>'
REQUEST = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
}


@pytest.fixture
def bridge(install: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bridge, installed without vLLM."""
    for name in ("DERENDER_MODEL", "DERENDER_VLLM_TOOL_PARSER_PLUGIN", "DERENDER_VLLM_REASONING_PARSER_PLUGIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DERENDER_VLLM_TOKENIZER", str(MODEL))
    monkeypatch.syspath_prepend(str(BRIDGE))
    install("derender_vllm_bridge", "vllm = derender_vllm_bridge:source", group="parser_sources")
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("vllm", "derender_vllm_bridge")]:
        del sys.modules[name]


@pytest.fixture
def vllm(bridge: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - one after the other
    """The stand-in for vLLM, installed too."""
    monkeypatch.syspath_prepend(str(BRIDGE / "tests" / "standin"))


def names(slot: str) -> list[str]:
    return [info.name for info in list_parsers() if info.slot == slot and info.name.startswith("vllm:")]


@pytest.mark.usefixtures("vllm")
def test_every_registered_parser_is_offered() -> None:
    assert names("tool") == ["vllm:numbered", "vllm:tagged"]
    assert names("reasoning") == ["vllm:buffering", "vllm:think"]
    assert {info.error for info in list_parsers() if info.name.startswith("vllm:")} == {None}
    parser = load_parser("tool", "vllm:tagged")
    assert (parser.name, parser.distribution) == ("vllm:tagged", "derender_vllm_bridge")
    assert "vLLM's tool parser tagged" in parser.description


@pytest.mark.usefixtures("vllm")
def test_a_parser_that_vllm_imports_late_is_imported_when_it_is_asked_for() -> None:
    assert "vllm:tagged" in names("tool")
    assert "vllm.tool_parsers.tagged" not in sys.modules
    load_parser("tool", "vllm:tagged")
    assert "vllm.tool_parsers.tagged" in sys.modules


@pytest.mark.usefixtures("vllm")
def test_an_unknown_name_gets_the_nearest_of_vllm() -> None:
    with pytest.raises(UnknownParserError, match=r"Did you mean 'vllm:tagged'\? vllm has: vllm:numbered, vllm:tagged"):
        load_parser("tool", "vllm:taged")


@pytest.mark.usefixtures("bridge")
def test_without_vllm_that_is_what_is_said() -> None:
    with pytest.raises(BrokenParserError, match="vLLM is not installed in this environment"):
        load_parser("tool", "vllm:tagged")
    (info,) = [info for info in list_parsers() if info.slot == "tool" and info.name.startswith("vllm")]
    assert info.name == "vllm:*"
    assert "vLLM is not installed" in (info.error or "")
    assert load_parser("tool", "hermes")


@pytest.mark.usefixtures("vllm")
def test_without_a_tokenizer_it_is_listed_and_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DERENDER_VLLM_TOKENIZER")
    assert "vllm:tagged" in names("tool")
    with pytest.raises(BrokenParserError, match=r"cannot be loaded: .*set DERENDER_VLLM_TOKENIZER"):
        load_parser("tool", "vllm:tagged")


def test_vllm_as_it_was_laid_out_before(
    bridge: None,  # noqa: ARG001 - installs it
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Tool parsers below the entry points, a plain dict for a registry, the tokenizer's function elsewhere."""
    standin = tmp_path / "old"
    shutil.copytree(BRIDGE / "tests" / "standin" / "vllm", standin / "vllm")
    package = standin / "vllm"
    (package / "entrypoints" / "openai" / "tool_parsers.py").write_text(
        "from vllm.entrypoints.openai import old_tagged\n\n"
        "class ToolParserManager:\n"
        "    tool_parsers = {'tagged': old_tagged.TaggedToolParser}\n\n"
        "    @classmethod\n"
        "    def get_tool_parser(cls, name):\n"
        "        return cls.tool_parsers[name]\n"
    )
    tagged = (package / "tool_parsers" / "tagged.py").read_text(encoding="utf-8")
    base = (
        (package / "tool_parsers" / "__init__.py").read_text(encoding="utf-8").partition("class ToolParserManager")[0]
    )
    old = tagged.replace(
        "from vllm.tool_parsers import ToolParser", "from vllm.entrypoints.openai.old_base import ToolParser"
    )
    (package / "entrypoints" / "openai" / "old_tagged.py").write_text(old, encoding="utf-8")
    (package / "entrypoints" / "openai" / "old_base.py").write_text(base, encoding="utf-8")
    (package / "transformers_utils").mkdir()
    (package / "transformers_utils" / "__init__.py").touch()
    (package / "tokenizers" / "__init__.py").rename(package / "transformers_utils" / "tokenizer.py")
    shutil.rmtree(package / "tool_parsers")
    shutil.rmtree(package / "tokenizers")
    monkeypatch.syspath_prepend(str(standin))
    assert names("tool") == ["vllm:tagged"]
    assert load_parser("tool", "vllm:tagged").extracts_itself


# -- whole answers and streams -----------------------------------------------------------------------------------------


@pytest.fixture
def derenderer(vllm: None) -> Derenderer:  # noqa: ARG001 - it must be there
    """A derenderer with vLLM's parsers."""
    return Derenderer.from_pretrained(
        MODEL, tool_parser="vllm:tagged", reasoning_parser="vllm:think", max_model_len=4096
    )


def whole(derenderer: Derenderer, output: str, prompt: str, finish_reason: str) -> dict[str, Any]:
    tokenizer = derenderer.model.tokenizer
    choice = {"index": 0, "token_ids": tokenizer.encode(output), "finish_reason": finish_reason}
    completion = derenderer.derender_chat(
        {
            "generate_response": {"request_id": "1", "choices": [choice]},
            "prompt_token_ids": tokenizer.encode(prompt),
            "chat_request": REQUEST,
        }
    )
    return plain(completion["choices"][0]["message"])


def streamed(derenderer: Derenderer, output: str, prompt: str, finish_reason: str, size: int) -> dict[str, Any]:
    """The message that a stream adds up to; its state goes through JSON at every chunk."""
    tokenizer = derenderer.model.tokenizer
    token_ids = tokenizer.encode(output)
    message: dict[str, Any] = {"content": None, "reasoning": None, "tool_calls": []}
    state = None
    for at in range(0, len(token_ids), size):
        last = at + size >= len(token_ids)
        choice = {"index": 0, "token_ids": token_ids[at : at + size], "finish_reason": finish_reason if last else None}
        answer = derenderer.derender_chat_chunk(
            {
                "stream": True,
                "generate_chunk": {"request_id": "1", "choices": [choice]},
                "stream_state": json.loads(json.dumps(state)),
                "prompt_token_ids": tokenizer.encode(prompt),
                "chat_request": REQUEST,
            }
        )
        state = answer["stream_state"]
        delta = answer["chunk"]["choices"][0]["delta"]
        for key in {"content", "reasoning"} & delta.keys():
            message[key] = (message[key] or "") + delta[key]
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"function": {"name": part["function"]["name"], "arguments": ""}})
            message["tool_calls"][part["index"]]["function"]["arguments"] += part["function"].get("arguments", "")
    return plain(message)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return {"content": message["content"], "reasoning": message["reasoning"], "calls": calls}


WEATHER = ("get_weather", '{"city": "Łódź 🦜", "days": 3}')


@pytest.mark.parametrize(
    ("output", "prompt", "finish_reason", "expected"),
    [
        ("<think>Hm. 日本</think>Yes.", "", "stop", {"content": "Yes.", "reasoning": "Hm. 日本", "calls": []}),
        (f"<think>Hm.</think>So: {CALL}", "", "stop", {"content": "So: ", "reasoning": "Hm.", "calls": [WEATHER]}),
        (f"{CALL}{CALL}", "</think>", "stop", {"content": None, "reasoning": None, "calls": [WEATHER] * 2}),
        (
            CALL.removesuffix("\n</tool_call>"),
            "</think>",
            "stop",
            {"content": None, "reasoning": None, "calls": [WEATHER]},
        ),
        ("Plain.", "<think>\n\n</think>\n\n", "stop", {"content": "Plain.", "reasoning": None, "calls": []}),
        ("<think>Hm", "", "length", {"content": None, "reasoning": "Hm", "calls": []}),
    ],
)
def test_answers_are_the_same_whole_and_in_any_chunks(
    derenderer: Derenderer, output: str, prompt: str, finish_reason: str, expected: dict[str, Any]
) -> None:
    prompt = f"<|im_start|>assistant\n{prompt}"
    assert whole(derenderer, output, prompt, finish_reason) == expected
    for size in (1, 2, 7, 1000):
        assert streamed(derenderer, output, prompt, finish_reason, size) == expected


def test_a_parser_of_vllm_goes_with_one_of_derender(vllm: None) -> None:  # noqa: ARG001 - it must be there
    mixed = Derenderer.from_pretrained(MODEL, tool_parser="hermes", reasoning_parser="vllm:think", max_model_len=4096)
    expected = {"content": "So:", "reasoning": "Hm.", "calls": [WEATHER]}
    assert whole(mixed, f"<think>Hm.</think>So: {CALL}", "", "stop") == expected
    for size in (1, 5):
        assert streamed(mixed, f"<think>Hm.</think>So: {CALL}", "", "stop", size) == expected
