"""JSON calls between two markers, which are looked for by their ids."""

# ruff: noqa: ARG002 - the interface has more parameters than any one parser reads

from __future__ import annotations

import contextlib
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

NAME = re.compile(r'\s*\{"name": "([^"]+)"')
ARGUMENTS = re.compile(r'\s*\{"name": "[^"]+", "arguments": (.*)', re.DOTALL)


class TaggedToolParser(ToolParser):
    """A parser in the style of vLLM's: the name first, then the arguments, their end when the call is closed."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.tool_call_start_token = "<tool_call>"
        self.tool_call_end_token = "</tool_call>"
        self.start_id = self.vocab[self.tool_call_start_token]
        self.end_id = self.vocab[self.tool_call_end_token]

    def extract_tool_calls(self, model_output: str, request: ChatCompletionRequest) -> ExtractedToolCallInformation:
        """Parse a whole output."""
        if self.tool_call_start_token not in model_output:
            return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=model_output)
        content, *parts = model_output.split(self.tool_call_start_token)
        calls = []
        for part in parts:
            try:
                found = json.loads(part.split(self.tool_call_end_token)[0])
                arguments = json.dumps(found["arguments"], ensure_ascii=False)
            except (ValueError, KeyError):
                return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=model_output)
            calls.append(ToolCall(function=FunctionCall(name=found["name"], arguments=arguments)))
        return ExtractedToolCallInformation(tools_called=True, tool_calls=calls, content=content or None)

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
        """Parse a piece. Only right when markers come alone."""
        if self.start_id in delta_token_ids:
            self.current_tool_id += 1
            self.current_tool_name_sent = False
            self.streamed_args_for_tool.append("")
            self.prev_tool_call_arr.append({})
            return None
        if not self.prev_tool_call_arr:
            return DeltaMessage(content=delta_text)
        if self.end_id in delta_token_ids and self.prev_tool_call_arr[-1].get("arguments") is not None:
            whole = json.dumps(self.prev_tool_call_arr[-1]["arguments"], ensure_ascii=False)
            return self._delta(DeltaFunctionCall(arguments=whole[len(self.streamed_args_for_tool[-1]) :]))
        if current_token_ids.count(self.start_id) == current_token_ids.count(self.end_id):
            is_content = self.end_id not in delta_token_ids and delta_text
            return DeltaMessage(content=delta_text) if is_content else None
        return self._in_call(current_text.rsplit(self.tool_call_start_token, 1)[1])

    def _in_call(self, body: str) -> DeltaMessage | None:
        if not self.current_tool_name_sent:
            name = NAME.match(body)
            if name is None:
                return None
            self.current_tool_name_sent = True
            self.prev_tool_call_arr[-1]["name"] = name[1]
            return self._delta(DeltaFunctionCall(name=name[1]), call_id="chatcmpl-tool-made-up")
        found = ARGUMENTS.match(body)
        if found is None:
            return None
        with contextlib.suppress(ValueError):
            self.prev_tool_call_arr[-1]["arguments"] = json.loads(body)["arguments"]
        text = found[1].rstrip("}\n")  # nobody knows yet which brace is the last one
        fragment = text[len(self.streamed_args_for_tool[-1]) :]
        self.streamed_args_for_tool[-1] = text
        return self._delta(DeltaFunctionCall(arguments=fragment)) if fragment else None

    def _delta(self, function: DeltaFunctionCall, call_id: str | None = None) -> DeltaMessage:
        return DeltaMessage(
            tool_calls=[DeltaToolCall(index=self.current_tool_id, id=call_id, type="function", function=function)]
        )
