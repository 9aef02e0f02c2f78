"""What the server's tests share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing

from derender_core.errors import InputError
from derender_server.derenderer import Derenderer

SMALL_SPECIALS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
SMALL_MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SMALL_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% elif enable_thinking is true %}<think>\n{% endif %}{% endif %}"
)

ModelMaker = Callable[..., Path]


def _small_tokenizer() -> Tokenizer:
    """A byte-level tokenizer without merges: every byte is a token, behind it the special tokens and the markers."""
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SMALL_SPECIALS])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in SMALL_MARKERS])
    bos = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bos)])
    return tokenizer


@pytest.fixture
def small_model(tmp_path: Path) -> ModelMaker:
    """``small_model(config=..., generation_config=..., tokenizer_config=..., files=...)``: a model's directory.

    264 tokens: 256 bytes, ``<s> </s> <|im_start|> <|im_end|>`` (special), ``<think> </think> <tool_call>
    </tool_call>``. BOS is added to plain prompts. ``config`` gives 512 tokens of context unless given.
    """

    def make(
        name: str = "small",
        *,
        config: dict[str, Any] | None = None,
        generation_config: dict[str, Any] | None = None,
        tokenizer_config: dict[str, Any] | None = None,
        files: dict[str, str] | None = None,
    ) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        _small_tokenizer().save(str(directory / "tokenizer.json"))
        defaults = {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": SMALL_TEMPLATE}
        contents = {
            "config.json": {"max_position_embeddings": 512} if config is None else config,
            "generation_config.json": generation_config,
            "tokenizer_config.json": defaults | (tokenizer_config or {}),
        }
        for file, content in contents.items():
            if content is not None:
                (directory / file).write_text(json.dumps(content), encoding="utf-8")
        for file, text in (files or {}).items():
            (directory / file).parent.mkdir(exist_ok=True)
            (directory / file).write_text(text, encoding="utf-8")
        return directory

    return make


# -- derendering -------------------------------------------------------------------------------------------------------

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


class Talk:
    """A derenderer with an engine's side to it: texts become token ids, and streams go call by call through JSON."""

    call = CALL
    weather = WEATHER

    def __init__(self, derenderer: Derenderer) -> None:
        self.derenderer = derenderer
        self.tokenizer = derenderer.model.tokenizer

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, markers and special tokens included."""
        return self.tokenizer.encode(text)

    def request(self, **fields: Any) -> dict[str, Any]:
        """A chat request that offers ``get_weather``."""
        return {"messages": [{"role": "user", "content": "hi"}], "tools": [WEATHER], **fields}

    def chat(
        self, output: str | list[int], request: dict[str, Any] | None = None, *, prompt: str = PROMPT, **choice: Any
    ) -> dict[str, Any]:
        """A one-shot chat answer to one choice."""
        token_ids = self.ids(output) if isinstance(output, str) else output
        return self.derenderer.derender_chat(
            {
                "generate_response": {
                    "request_id": "chatcmpl-1",
                    "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop", **choice}],
                },
                "prompt_token_ids": self.ids(prompt),
                "chat_request": self.request() if request is None else request,
            }
        )

    def message(self, output: str | list[int], request: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The message of a one-shot chat answer."""
        message: dict[str, Any] = self.chat(output, request, **more)["choices"][0]["message"]
        return message

    def chunks(
        self,
        output: str | list[int] | list[list[int]],
        request: dict[str, Any] | None = None,
        *,
        size: int = 1,
        prompt: str = PROMPT,
        finish_reason: str = "stop",
        stop_reason: int | str | None = None,
        state: dict[str, Any] | None = None,
        index: int = 0,
    ) -> list[dict[str, Any]]:
        """The answers to a chat stream, ``{"chunk", "stream_state"}`` each, the prompt sent with the first only."""
        token_ids = self.ids(output) if isinstance(output, str) else output
        pieces: list[Any] = [token_ids[at : at + size] for at in range(0, len(token_ids), size)]
        if token_ids and isinstance(token_ids[0], list):
            pieces = token_ids
        answers = []
        for at, piece in enumerate(pieces):
            last = at == len(pieces) - 1
            choice = {"index": index, "token_ids": piece, "finish_reason": finish_reason if last else None}
            if last and stop_reason is not None:
                choice["stop_reason"] = stop_reason
            body = {
                "stream": True,
                "generate_chunk": {"request_id": "chatcmpl-1", "choices": [choice]},
                "stream_state": state,
                "chat_request": self.request() if request is None else request,
            }
            if at == 0:
                body["prompt_token_ids"] = self.ids(prompt)
            answer = json.loads(json.dumps(self.derenderer.derender_chat_chunk(json.loads(json.dumps(body)))))
            state = answer["stream_state"]
            answers.append(answer)
        return answers

    def deltas(self, *args: Any, **more: Any) -> list[dict[str, Any]]:
        """The deltas of ``chunks``."""
        return [answer["chunk"]["choices"][0]["delta"] for answer in self.chunks(*args, **more)]

    def streamed(self, *args: Any, **more: Any) -> dict[str, Any]:
        """The message that the deltas of ``chunks`` add up to."""
        return self.fold(self.deltas(*args, **more))

    @staticmethod
    def fold(deltas: list[dict[str, Any]]) -> dict[str, Any]:
        """A message from its deltas, as a strict client makes it."""
        message: dict[str, Any] = {}
        calls: dict[int, dict[str, Any]] = {}
        for delta in deltas:
            for key in ("role", "content", "reasoning", "reasoning_content"):
                if key in delta:
                    assert isinstance(delta[key], str), "a key without a value is absent"
                    message[key] = message.get(key, "") + delta[key]
            entries = delta.get("tool_calls", [])
            assert len({entry["index"] for entry in entries}) == len(entries), "one entry for each index in a chunk"
            for entry in entries:
                if entry["index"] not in calls:
                    assert set(entry) == {"index", "id", "type", "function"}
                    function = dict(entry["function"])
                    calls[entry["index"]] = {"id": entry["id"], "type": entry["type"], "function": function}
                else:
                    assert set(entry) == {"index", "function"}, "what identifies a call comes once"
                    assert set(entry["function"]) == {"arguments"}
                    calls[entry["index"]]["function"]["arguments"] += entry["function"]["arguments"]
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return {"content": None, "reasoning": None, **message}


@pytest.fixture
def talk(small_model: ModelMaker) -> Callable[..., Talk]:
    """``talk(tool="hermes", reasoning="qwen3", **options)``: a derenderer of the small model, with an engine's side.

    ``options`` are those of ``Derenderer``; ``model`` takes the keywords of ``small_model``.
    """

    def make(
        tool: str | None = "hermes",
        reasoning: str | None = "qwen3",
        *,
        model: dict[str, Any] | None = None,
        **options: Any,
    ) -> Talk:
        settings = {"config": {"max_position_embeddings": 8192}, **(model or {})}
        directory = small_model(f"small{next(numbers)}", **settings)
        return Talk(Derenderer.from_pretrained(directory, tool_parser=tool, reasoning_parser=reasoning, **options))

    numbers = itertools.count()
    return make


# -- the Responses and the Messages API --------------------------------------------------------------------------------

API_REQUESTS: dict[str, dict[str, Any]] = {
    "responses": {"input": "hi", "tools": [{"type": "function", **WEATHER["function"], "strict": None}]},
    "messages": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 100,
        "tools": [{"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}],
    },
}


class ApiTalk:
    """An engine's side to the derender calls of one API. What goes in and out goes through JSON."""

    call = CALL

    def __init__(self, derenderer: Derenderer, api: str) -> None:
        self.derenderer, self.api = derenderer, api
        self.ids = derenderer.model.tokenizer.encode
        self._whole = getattr(derenderer, f"derender_{api}")
        self._chunk = getattr(derenderer, f"derender_{api}_chunk")

    def request(self, **fields: Any) -> dict[str, Any]:
        """A request that offers ``get_weather``."""
        return {**API_REQUESTS[self.api], **fields}

    def whole(self, output: str, request: dict[str, Any] | None = None, *, prompt: str = PROMPT, **choice: Any) -> Any:
        """A one-shot answer."""
        body = {
            "generate_response": {"request_id": "r-1", "choices": [{"token_ids": self.ids(output), **choice}]},
            "prompt_token_ids": self.ids(prompt),
            f"{self.api}_request": self.request() if request is None else request,
        }
        return json.loads(json.dumps(self._whole(json.loads(json.dumps(body)))))

    def chunk(
        self,
        token_ids: list[int],
        state: dict[str, Any] | None = None,
        request: dict[str, Any] | None = None,
        *,
        prompt: str | None = PROMPT,
        finish_reason: str | None = None,
        usage: dict[str, Any] | None = None,
        transcript: dict[str, Any] | None = None,
        **choice: Any,
    ) -> Any:
        """The answer to one chunk."""
        choices = [{"token_ids": token_ids, "finish_reason": finish_reason, **choice}]
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r-1", "choices": choices, "usage": usage},
            "stream_state": state,
            f"{self.api}_request": self.request() if request is None else request,
        }
        if prompt is not None and state is None:
            body["prompt_token_ids"] = self.ids(prompt)
        if transcript is not None:
            body["transcript"] = transcript
        return json.loads(json.dumps(self._chunk(json.loads(json.dumps(body)))))

    def events(
        self,
        output: str | list[list[int]],
        request: dict[str, Any] | None = None,
        *,
        size: int = 1,
        finish_reason: str = "stop",
        stop_reason: int | str | None = None,
        prompt: str = PROMPT,
    ) -> list[dict[str, Any]]:
        """All events of a stream. A transcript is sent only when it is asked for."""
        token_ids = self.ids(output) if isinstance(output, str) else []
        pieces = [token_ids[at : at + size] for at in range(0, len(token_ids), size)] if token_ids else output
        events: list[dict[str, Any]] = []
        transcript: dict[str, Any] = {"output": [], "text": ""}
        state = None
        for at, piece in enumerate(pieces):
            end = {"finish_reason": finish_reason, "stop_reason": stop_reason} if at == len(pieces) - 1 else {}
            try:
                answer = self.chunk(piece, state, request, prompt=prompt, **end)
            except InputError as error:
                if error.param != "transcript":
                    raise
                answer = self.chunk(piece, state, request, prompt=prompt, transcript=transcript, **end)
            state = answer["stream_state"]
            events += answer["events"]
            for event in answer["events"]:
                if event["type"].endswith(".delta"):
                    transcript["text"] += event["delta"]
                elif event["type"] == "response.output_item.done":
                    transcript = {"output": [*transcript["output"], event["item"]], "text": ""}
        return events


@pytest.fixture
def api_talk(talk: Callable[..., Talk]) -> Callable[..., ApiTalk]:
    """``api_talk("responses" | "messages", ...)``: as ``talk``, for another API."""
    return lambda api, *args, **more: ApiTalk(talk(*args, **more).derenderer, api)
