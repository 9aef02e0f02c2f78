"""Tool parsers and their registry."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from vllm.entrypoints.openai.protocol import ChatCompletionRequest
from vllm.registry import Registry


class ToolParser:
    """What tool parsers derive from."""

    def __init__(self, tokenizer: Any) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.streamed_args_for_tool: list[str] = []
        self.model_tokenizer = tokenizer

    @cached_property
    def vocab(self) -> dict[str, int]:
        """The tokenizer's tokens."""
        return self.model_tokenizer.get_vocab()  # type: ignore[no-any-return]

    def adjust_request(self, request: ChatCompletionRequest) -> ChatCompletionRequest:
        """Change a request before it is generated from."""
        return request


class ToolParserManager(Registry):
    """The registry."""

    tool_parsers: ClassVar[dict[str, type]] = {}
    classes = tool_parsers
    lazy: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def get_tool_parser(cls, name: str) -> Any:
        """The class of a parser."""
        return cls.find(name)

    @classmethod
    def import_tool_parser(cls, plugin_path: str) -> None:
        """Load a file."""
        cls.import_file(plugin_path)


ToolParserManager.register_lazy_module("tagged", "vllm.tool_parsers.tagged", "TaggedToolParser")
ToolParserManager.register_lazy_module("numbered", "vllm.tool_parsers.numbered", "NumberedToolParser")
