"""Calls behind a special token, with ids that the model writes: ``<|call|>ring:0{"a": 1}``."""

# ruff: noqa: ARG002 - the interface has more parameters than any one parser reads

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.openai.protocol import (
    ChatCompletionRequest,
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.tool_parsers import ToolParser

CALL = re.compile(r"<\|call\|>(([a-z]+):\d+)(\{[^<]*)")


def is_json(text: str) -> bool:
    """Whether a text is complete JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class NumberedToolParser(ToolParser):
    """A parser that asks to see special tokens, and takes the tools when it is made."""

    def __init__(self, tokenizer: Any, tools: Sequence[Any] | None = None) -> None:
        super().__init__(tokenizer)
        self.names = [tool.function.name for tool in tools or ()]
        self.sent = 0

    def adjust_request(self, request: ChatCompletionRequest) -> ChatCompletionRequest:
        """Special tokens are needed in the text."""
        return request.model_copy(update={"skip_special_tokens": False})

    def extract_tool_calls(self, model_output: str, request: ChatCompletionRequest) -> ExtractedToolCallInformation:
        """Parse a whole output."""
        calls = [
            ToolCall(id=match[1], function=FunctionCall(name=match[2], arguments=match[3]))
            for match in CALL.finditer(model_output)
            if match[2] in self.names
        ]
        content = model_output.partition("<|call|>")[0]
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=content or None)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: ChatCompletionRequest,
    ) -> DeltaMessage | None:
        """Parse a piece: calls come whole, when they are closed."""
        if "<|call|>" not in current_text:
            return DeltaMessage(content=delta_text)
        calls = list(CALL.finditer(current_text))
        whole = [match for match in calls if is_json(match[3])][self.sent :]
        parts = [
            DeltaToolCall(
                index=self.sent + at, id=match[1], function=DeltaFunctionCall(name=match[2], arguments=match[3])
            )
            for at, match in enumerate(whole)
        ]
        self.sent += len(parts)
        return DeltaMessage(tool_calls=parts) if parts else None
