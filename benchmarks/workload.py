"""What is measured: a model's tokenizer, texts that look like a model's output, and the bodies that carry them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from derender_core.tokenizer import ModelTokenizer
from derender_server.model import DEMO_DIRECTORY

__all__ = ["CHAT_REQUEST", "ROOT", "Model", "chat_body", "chunk_body", "encode", "find_model", "prose"]

ROOT = Path(__file__).resolve().parent.parent
QWEN3 = ROOT / ".cache" / "tokenizers" / "qwen3"
SEED = 20240607

WORDS = """
    the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they you
    were their one all we can her has there been if more when will would who so no out up into two about because
    temperature forecast function returns value between parameters therefore however consider weather Oslo Reykjavík
    café naïve Straße 東京 天気 こんにちは Москва погода 🌦 42 1,024 3.14 2026-12-01 `code` (maybe) "quoted" x+y<z
""".split()  # noqa: SIM905 - a list of strings would be a page long

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather and a forecast for a place.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city."},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a text to a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"],
            },
        },
    },
]
CHAT_REQUEST: dict[str, Any] = {
    "model": "bench",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant who looks things up before answering."},
        {"role": "user", "content": "Should I take an umbrella to Oslo tomorrow, and why?"},
    ],
    "tools": TOOLS,
    "temperature": 0.7,
    "max_tokens": 16384,
    "stream": True,
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>'


def prose(words: int, seed: int = SEED) -> str:
    """Text of so many words; the same for the same seed."""
    rng = random.Random(seed)
    parts: list[str] = []
    for at in range(words):
        parts.append(rng.choice(WORDS))
        parts.append(rng.choice((". ", ", ", ".\n", ":\n\n- ", ")\n")) if at % 11 == 10 else " ")
    return "".join(parts)


@dataclass(frozen=True)
class Model:
    """The model whose tokenizer is used.

    Args:
        name: how reports call it.
        directory: where its files are.
        max_model_len: what servers of it are told.
    """

    name: str
    directory: Path
    max_model_len: int = 262144

    @cached_property
    def tokenizer(self) -> ModelTokenizer:
        """Its tokenizer."""
        return ModelTokenizer.load(self.directory)

    @cached_property
    def prompt(self) -> list[int]:
        """A short rendered prompt."""
        turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in CHAT_REQUEST["messages"])
        return self.tokenizer.encode(turns + "<|im_start|>assistant\n")

    def prose_ids(self, count: int) -> list[int]:
        """So many ids of prose."""
        words, ids = count, list[int]()
        while len(ids) < count:
            ids = self.tokenizer.encode(prose(words))
            words *= 2
        return ids[:count]

    def output(self, count: int) -> list[int]:
        """So many ids of an answer: reasoning, then text, then a call."""
        encode_ids = self.tokenizer.encode
        opener, closer, call = encode_ids("<think>\n"), encode_ids("\n</think>\n\n"), encode_ids("\n" + CALL)
        ids = self.prose_ids(count)
        half = count // 2
        return [*opener, *ids[len(opener) : half], *closer, *ids[half:]][: count - len(call)] + call


def find_model() -> Model:
    """Qwen3 when ``scripts/fetch_tokenizers.py`` brought it, else the demo model, whose texts take more tokens."""
    if (QWEN3 / "tokenizer.json").is_file():
        return Model("Qwen3", QWEN3)
    print("note: no Qwen3 tokenizer (python scripts/fetch_tokenizers.py qwen3 brings it); using the demo model")
    return Model("demo", DEMO_DIRECTORY)


def encode(body: Any) -> bytes:
    """A JSON body, as clients write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def chat_body(model: Model, token_ids: Sequence[int], **choice: Any) -> bytes:
    """A one-shot chat derender request."""
    return encode(
        {
            "generate_response": {
                "request_id": "chatcmpl-bench",
                "choices": [{"index": 0, "token_ids": list(token_ids), "finish_reason": "stop", **choice}],
            },
            "prompt_tokens": len(model.prompt),
            "prompt_token_ids": model.prompt,
            "chat_request": {key: value for key, value in CHAT_REQUEST.items() if key not in ("model", "stream")},
        }
    )


def chunk_body(
    token_ids: Sequence[int], state: Any, *, prompt: Sequence[int] | None = None, final: bool = False
) -> bytes:
    """A streaming chat derender request."""
    body: dict[str, Any] = {
        "stream": True,
        "generate_chunk": {
            "request_id": "chatcmpl-bench",
            "choices": [{"index": 0, "token_ids": list(token_ids), "finish_reason": "stop" if final else None}],
        },
        "stream_state": state,
        "chat_request": {key: value for key, value in CHAT_REQUEST.items() if key != "model"},
    }
    if prompt is not None:
        body["prompt_token_ids"] = list(prompt)
    return encode(body)
