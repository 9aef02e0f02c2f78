"""Reasoning parsers and their registry."""

# ruff: noqa: ARG002 - the interface has more parameters than any one parser reads

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from vllm.entrypoints.openai.protocol import ChatCompletionRequest, DeltaMessage
from vllm.registry import Registry


class ReasoningParser:
    """What reasoning parsers derive from."""

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self.model_tokenizer = tokenizer
        self.vocab = tokenizer.get_vocab()
        self.options = kwargs.get("chat_template_kwargs") or {}


class ReasoningParserManager(Registry):
    """The registry."""

    reasoning_parsers: ClassVar[dict[str, type]] = {}
    classes = reasoning_parsers
    lazy: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def get_reasoning_parser(cls, name: str) -> Any:
        """The class of a parser."""
        return cls.find(name)

    @classmethod
    def import_reasoning_parser(cls, plugin_path: str) -> None:
        """Load a file."""
        cls.import_file(plugin_path)


@ReasoningParserManager.register_module("think")
class ThinkReasoningParser(ReasoningParser):
    """Reasoning up to an end marker, which is looked for by its id."""

    start_token = "<think>"
    end_token = "</think>"

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning is over behind these tokens."""
        return self.options.get("thinking") is False or self.vocab[self.end_token] in input_ids

    def extract_reasoning(self, model_output: str, request: ChatCompletionRequest) -> tuple[str | None, str | None]:
        """Parse a whole output."""
        reasoning, end, content = model_output.removeprefix(self.start_token).partition(self.end_token)
        return reasoning or None, (content or None) if end else None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> DeltaMessage | None:
        """Parse a piece."""
        start, end = self.vocab[self.start_token], self.vocab[self.end_token]
        if list(delta_token_ids) in ([start], [end]):
            return None
        if end in previous_token_ids:
            return DeltaMessage(content=delta_text)
        return DeltaMessage(reasoning=delta_text)


@ReasoningParserManager.register_module("buffering")
class BufferingReasoningParser(ThinkReasoningParser):
    """One that holds back what it was given last, and is told where the prompt left off."""

    start_token, end_token = "", ""  # named as below only, as newer parsers do
    reasoning_start_str = "<think>"
    reasoning_end_str = "</think>"
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self.place = "content"
        self.held = ""

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        """Begins inside reasoning where the prompt does."""
        if self.vocab[self.reasoning_start_str] in prompt_token_ids:
            self.place = "reasoning"

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning is over behind these tokens."""
        return self.vocab[self.reasoning_end_str] in input_ids

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether the end was read, and not only held back."""
        return self.place == "over"

    def extract_reasoning_streaming(self, *arguments: Any) -> DeltaMessage | None:
        """Parse the piece before this one."""
        piece, self.held = self.held, arguments[2]
        return self._read(piece)

    def finish_streaming(self) -> DeltaMessage | None:
        """Parse what is held back."""
        piece, self.held = self.held, ""
        return self._read(piece)

    def _read(self, piece: str) -> DeltaMessage | None:
        if piece == self.reasoning_start_str:
            self.place = "reasoning"
        elif piece == self.reasoning_end_str:
            self.place = "over"
        elif piece:
            return DeltaMessage(**{"reasoning" if self.place == "reasoning" else "content": piece})
        return None

    def extract_reasoning(self, model_output: str, request: ChatCompletionRequest) -> tuple[str | None, str | None]:
        """Parse a whole output."""
        if self.place == "content" and not model_output.startswith(self.reasoning_start_str):
            return None, model_output
        reasoning, _, content = model_output.removeprefix(self.reasoning_start_str).partition(self.reasoning_end_str)
        return reasoning or None, content or None

    def get_streaming_fallback_content(self, text: str, request: ChatCompletionRequest) -> str | None:
        """Nothing but a marker is an answer after all."""
        return "(nothing)" if text == self.reasoning_start_str else None
