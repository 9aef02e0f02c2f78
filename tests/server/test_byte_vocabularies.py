"""Models without a tokenizer.json: Mistral's tekken.json and vocabularies in tiktoken's format, loaded, rendered and
derendered."""

from __future__ import annotations

import base64
import builtins
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derender_core import ModelTokenizer, TokenizerLoadError
from derender_core.byte_tokenizer import AddedText, ByteTokenizer, split_runs
from derender_server import Derenderer, Renderer
from derender_server.model import ModelLoadError, ServedModel

WORDS = [b" hello", b"hello", b"\xf0\x9f", "é".encode(), b'{"', b'"}', b"[INST]", b"\xa9 x\xe4\xbd"]
CONTROL = [
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]",
]  # fmt: skip
PATTERN = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+| \p{L}+|\s+"
TEXT = 'hello [INST] 🌊é hello {"x"} \n  中\N{REPLACEMENT CHARACTER}'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def vocabulary() -> list[bytes]:
    return [bytes([byte]) for byte in range(0x100)] + WORDS


def write_tekken(directory: Path, **files: Any) -> Path:
    tokens = vocabulary()
    tekken = {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(tokens) + 32,
            "default_num_special_tokens": 32,
            "version": "v13",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(CONTROL)
        ],
    }
    contents = {"tekken.json": tekken, "params.json": {"max_seq_len": 512}} | files
    for name, content in contents.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / name).write_text(text, encoding="utf-8")
    return directory


KIMI_TOKENS = {
    "264": {"content": "[BOS]", "special": True},
    "265": {"content": "[EOS]", "special": True},
    "266": {"content": "<|im_end|>", "special": True},
    "267": {"content": "<|tool_call_begin|>", "special": False},
    "268": {"content": "<think>", "special": False},
    "269": {"content": "</think>", "special": False},
}
KIMI_CONFIG = {
    "tokenizer_class": "TikTokenTokenizer",
    "added_tokens_decoder": KIMI_TOKENS,
    "bos_token": "[BOS]",
    "eos_token": "[EOS]",
    "model_max_length": 512,
    "chat_template": "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}<think>",
}


def write_tiktoken(directory: Path, config: dict[str, Any] | None = None, **files: str) -> Path:
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(vocabulary())]
    contents = {
        "tiktoken.model": "\n".join(lines) + "\n",
        "tokenizer_config.json": json.dumps(KIMI_CONFIG | {"pat_str": PATTERN} | (config or {})),
    } | files
    for name, text in contents.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


MAKERS: dict[str, Callable[[Path], Path]] = {"tekken": write_tekken, "tiktoken": write_tiktoken}


@pytest.fixture(params=MAKERS)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return MAKERS[request.param](tmp_path)


# -- ids and texts -----------------------------------------------------------------------------------------------------


def test_text_survives_and_every_cut_agrees(directory: Path) -> None:
    tokenizer = ModelTokenizer.load(directory)
    eos = tokenizer.eos_token_id
    assert eos is not None
    ids = [*tokenizer.encode(TEXT), eos, *tokenizer.encode("é")]
    whole = TEXT + str(tokenizer.eos_token) + "é"
    assert tokenizer.decode(ids, skip_special_tokens=False) == whole
    for skip, visible in ((True, frozenset({eos})), (False, None)):
        expected = whole if not skip or tokenizer.token_id("[INST]") != 3 else whole.replace("[INST]", "")
        detokenizer = tokenizer.detokenizer(visible)
        for cut in range(len(ids) + 1):
            first, state = detokenizer.push(detokenizer.start(None), ids[:cut])
            second, _ = detokenizer.push(json.loads(json.dumps(state)), ids[cut:], final=True)
            assert first.text + second.text == expected
            marked = [(part.text[at.start : at.end], at.token_id) for part in (first, second) for at in part.specials]
            assert (tokenizer.eos_token, eos) in marked


def test_bytes_of_every_id(directory: Path) -> None:
    tokenizer = ModelTokenizer.load(directory)
    shift = 32 if tokenizer.token_id("[INST]") == 3 else 0
    for rank, token in enumerate(vocabulary()):
        assert tokenizer.token_bytes(rank + shift) == token
        assert tokenizer.decode([rank + shift]) == token.decode(errors="replace")
    assert tokenizer.token_bytes(tokenizer.size) == b""
    assert tokenizer.token_bytes(-1) == b""
    assert all(tokenizer.token_text(token_id) for token_id in tokenizer.special_ids)


def test_offsets_are_those_of_characters(directory: Path) -> None:
    encoded = ModelTokenizer.load(directory).tokenizer.encode("a🌊é!", add_special_tokens=False)
    assert encoded.offsets == [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3), (3, 4)]


def test_half_surrogates_are_replaced_as_everywhere(directory: Path) -> None:
    tokenizer = ModelTokenizer.load(directory)
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("char", [" ", "a", "!"])
def test_runs_that_overflow_the_library_are_cut(directory: Path, char: str) -> None:
    tokenizer = ModelTokenizer.load(directory)
    text = "hello" + char * 200_000 + "hello"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_runs_are_cut_after_so_many_characters() -> None:
    text = "ab" + " " * 7 + "cdefgh"
    assert list(split_runs(text, 3, blanks_only=True)) == ["ab   ", "   ", " cdefgh"]
    assert list(split_runs(text, 3, blanks_only=False)) == ["ab   ", "   ", " cde", "fgh"]
    assert list(split_runs(" " * 6, 3, blanks_only=True)) == ["   ", "   "]
    assert list(split_runs("", 3, blanks_only=True)) == [""]


def test_of_two_added_tokens_the_longer_is_found() -> None:
    added = {0: AddedText("<a>", True), 1: AddedText("<a>>", False)}
    tokenizer = ByteTokenizer([b"", b"", b"x"], added, lambda text: [2] * len(text), prefix=(0,))
    assert tokenizer.encode("x<a>>x<a>").ids == [2, 1, 2, 0]
    encoded = tokenizer.encode("x", add_special_tokens=True)
    assert (encoded.ids, encoded.offsets) == ([0, 2], [(0, 0), (0, 1)])
    assert tokenizer.decode([0, 1, 2]) == "<a>>x"
    assert tokenizer.decode([0, 1, 2], skip_special_tokens=False) == "<a><a>>x"
    assert (tokenizer.token_to_id("<a>"), tokenizer.token_to_id("x"), tokenizer.token_to_id("y")) == (0, 2, None)
    assert (tokenizer.id_to_token(1), tokenizer.id_to_token(9)) == ("<a>>", None)


# -- tekken ------------------------------------------------------------------------------------------------------------


def test_control_tokens_of_tekken_are_special(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer.load(write_tekken(tmp_path))
    assert tokenizer.special_ids == frozenset(range(32))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert tokenizer.token_id("[TOOL_CALLS]") == 9
    # The same text is also an ordinary token; the control token is the one that markers mean.
    assert tokenizer.encode("[INST]") == [3]
    assert tokenizer.token_bytes(32 + 256 + WORDS.index(b"[INST]")) == b"[INST]"
    assert tokenizer.encode("hello", add_special_tokens=True)[0] == 1


def test_without_a_template_mistral_common_renders(tmp_path: Path) -> None:
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    renderer = Renderer.from_pretrained(write_tekken(tmp_path))
    messages = [
        {"role": "system", "content": "Say [INST]."},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_abcdefghi", "content": "ok"},
    ]
    rendered = renderer.render_chat({"messages": messages, "tools": [TOOL], "return_token_offsets": True})
    own = json.loads(json.dumps(messages).replace("call_abcdefghi", "abcdefghi"))
    own[1]["content"] = "hello"
    expected = MistralTokenizer.from_file(tmp_path / "tekken.json").encode_chat_completion(
        ChatCompletionRequest.from_openai(own, tools=[TOOL])
    )
    assert rendered.token_ids == expected.tokens
    assert rendered.token_ids.count(3) == 1  # the marker in the message is text
    assert rendered.token_offsets is not None
    assert len(rendered.token_offsets) == len(rendered.token_ids)
    assert renderer.tokenize({"messages": messages, "tools": [TOOL]}).tokens == expected.tokens


def test_what_mistral_common_refuses_is_the_clients_error(tmp_path: Path) -> None:
    renderer = Renderer.from_pretrained(write_tekken(tmp_path))
    with pytest.raises(ValueError, match="mistral-common refuses the request") as caught:
        renderer.render_chat({"messages": [{"role": "assistant", "content": "hello"}]})
    assert caught.value.param == "messages"  # type: ignore[attr-defined]


def test_a_template_is_used_where_there_is_one(tmp_path: Path) -> None:
    template = "{{ bos_token }}[INST]{{ messages[0].content }}[/INST]"
    renderer = Renderer.from_pretrained(write_tekken(tmp_path, **{"chat_template.jinja": template}))
    ids = renderer.render_chat({"messages": [{"role": "user", "content": "hello"}]}).token_ids
    assert ids == [1, 3, 32 + 256 + WORDS.index(b"hello"), 4]


def test_calls_and_reasoning_of_a_tekken_model(tmp_path: Path) -> None:
    derenderer = Derenderer.from_pretrained(
        write_tekken(tmp_path), tool_parser="mistral", reasoning_parser="mistral", enable_auto_tool_choice=True
    )
    encode = derenderer.model.tokenizer.encode
    output = encode("[THINK]é?[/THINK]hello") + encode('[TOOL_CALLS]f[ARGS]{"x": "🌊"}') + [2]
    # A marker spelled by ordinary tokens is text.
    output.insert(2, 32 + 256 + WORDS.index(b"[INST]"))
    answer = derenderer.derender_chat(
        {
            "generate_response": {
                "request_id": "1",
                "choices": [{"index": 0, "token_ids": output, "finish_reason": "stop"}],
            },
            "chat_request": {"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]},
        }
    )
    message = answer["choices"][0]["message"]
    assert message["reasoning"] == "é[INST]?"
    assert message["content"] == "hello"
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x": "🌊"}'}


def test_a_tekken_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"tekken\.json: KeyError"):
        ModelTokenizer.load(write_tekken(tmp_path, **{"tekken.json": {}}))


def test_length_comes_from_params_json(tmp_path: Path) -> None:
    assert ServedModel.load(write_tekken(tmp_path)).max_model_len == 512


# -- tiktoken ----------------------------------------------------------------------------------------------------------


def test_added_tokens_of_a_tiktoken_model(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer.load(write_tiktoken(tmp_path))
    assert tokenizer.encode("<think>hello<|im_end|>") == [268, 257, 266]
    assert tokenizer.decode([268, 257, 266]) == "<think>hello"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (264, 265)
    assert tokenizer.added_token_ids(["<think>", "</think>"]) == {268, 269}
    assert tokenizer.size == 264 + 256
    assert tokenizer.token_text(300) == "<|reserved_token_300|>"
    assert tokenizer.encode("hello", add_special_tokens=True) == [257]


def test_bos_is_added_where_the_configuration_says_so(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer.load(write_tiktoken(tmp_path, {"add_bos_token": True}))
    assert tokenizer.encode("hello", add_special_tokens=True) == [264, 257]


def test_a_named_token_is_special_whatever_its_flag(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer.load(write_tiktoken(tmp_path, {"additional_special_tokens": ["<|tool_call_begin|>"]}))
    assert 267 in tokenizer.special_ids
    assert 268 not in tokenizer.special_ids


def test_render_and_derender_a_tiktoken_model(tmp_path: Path) -> None:
    directory = write_tiktoken(tmp_path)
    renderer = Renderer.from_pretrained(directory, reasoning_parser="deepseek_r1")
    prompt = renderer.render_chat({"messages": [{"role": "user", "content": "hello 🌊"}]}).token_ids
    assert renderer.model.tokenizer.decode(prompt, skip_special_tokens=False) == "hello 🌊<|im_end|><think>"
    derenderer = Derenderer.from_pretrained(directory, reasoning_parser="deepseek_r1")
    answer = derenderer.derender_chat(
        {
            "generate_response": {
                "request_id": "1",
                "choices": [
                    {
                        "index": 0,
                        "token_ids": [*derenderer.model.tokenizer.encode("é</think>hello"), 266],
                        "finish_reason": "stop",
                    }
                ],
            },
            "prompt_token_ids": prompt,
            "chat_request": {"messages": [{"role": "user", "content": "x"}]},
        }
    )
    message = answer["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("é", "hello")


SOURCES = {
    "joined": 'class T:\n    pat_str = "|".join([r"""\\p{L}+""", r"""\\P{L}"""])\n',
    "constant": 'PAT_STR = r"\\p{L}+|\\P{L}"\n',
    "attribute": 'class T:\n    def __init__(self):\n        self.pat_str: str = "\\\\p{L}+" r"|\\P{L}"\n',
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_pattern_is_read_from_source_that_is_not_run(tmp_path: Path, source: str) -> None:
    code = f"raise SystemExit\n{SOURCES[source]}"
    tokenizer = ModelTokenizer.load(write_tiktoken(tmp_path, {"pat_str": None}, **{"tokenization_kimi.py": code}))
    assert tokenizer.encode(" hello") == [32, 257]


@pytest.mark.parametrize("code", [None, "pat_str = open('x').read()\n", "pat_str = ''.join(range(3))\nx = 1\n"])
def test_no_pattern(tmp_path: Path, code: str | None) -> None:
    files = {} if code is None else {"tokenization_kimi.py": code}
    with pytest.raises(TokenizerLoadError, match=r"does not say how texts are cut.*pat_str"):
        ModelTokenizer.load(write_tiktoken(tmp_path, {"pat_str": None}, **files))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("aGk=\n", "line 1: a line must be"),
        ("?? 1\n", "line 1: a line must be"),
        ("aGk= 1\n", "no token for byte 0"),
        ("", "no token for byte 0"),
    ],
)
def test_a_vocabulary_that_is_none(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(TokenizerLoadError, match=what):
        ModelTokenizer.load(write_tiktoken(tmp_path, **{"tiktoken.model": content}))


def test_a_pattern_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"tiktoken\.model"):
        ModelTokenizer.load(write_tiktoken(tmp_path, {"pat_str": "("}))


def test_a_single_file_of_another_name(tmp_path: Path) -> None:
    directory = write_tiktoken(tmp_path)
    (directory / "tiktoken.model").rename(directory / "qwen.tiktoken")
    assert ModelTokenizer.load(directory).encode("hello") == [257]


# -- extras ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "package"), [("tekken", "mistral_common"), ("tiktoken", "tiktoken")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, package: str) -> None:
    directory = MAKERS[kind](tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    extra = "mistral" if kind == "tekken" else "tiktoken"
    with pytest.raises(TokenizerLoadError, match=rf"pip install 'derender\[{extra}\]'"):
        ModelTokenizer.load(directory)


def test_tokenizer_json_comes_first(small_model: Callable[..., Path]) -> None:
    directory = small_model(files={"tekken.json": "not read"})
    assert ModelTokenizer.load(directory).size == 264


def test_no_tokenizer_at_all(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"tekken\.json or a tiktoken\.model"):
        ServedModel.load(tmp_path)
    with pytest.raises(ModelLoadError):
        ServedModel.load(tmp_path / "nothing here")
