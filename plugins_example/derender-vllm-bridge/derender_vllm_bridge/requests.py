"""vLLM's chat request, made of what derender's parsers know of one."""

from __future__ import annotations

from typing import Any

from derender_core import ParseContext
from derender_vllm_bridge.vllm_api import request_class

__all__ = ["chat_request"]


def chat_request(context: ParseContext) -> Any:
    """A request with the fields that parsers look into: tools, tool choice, template arguments."""
    body: dict[str, Any] = {"model": "model", "messages": [{"role": "user", "content": ""}]}
    if context.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": tool.name, "parameters": dict(tool.parameters or {})}}
            for tool in context.tools
        ]
        name = context.forced_name
        body["tool_choice"] = context.tool_choice if name is None else {"type": "function", "function": {"name": name}}
    if context.template_kwargs:
        body["chat_template_kwargs"] = dict(context.template_kwargs)
    return request_class().model_validate(body)
