"""The output items of a Response, and the Response around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from derender_server.api_output import TokenCounts, part_id
from derender_server.chat import CallIds
from derender_server.parts import Part
from derender_server.wire.api_derender import ResponsesRequestView

__all__ = ["ITEM_TYPES", "Status", "ending", "item_body", "item_id", "response_body", "text_part", "usage_body"]

Status = Literal["in_progress", "completed", "incomplete"]

ID_PREFIXES: Mapping[str, str] = {"reasoning": "rs_", "text": "msg_", "call": "fc_"}
ITEM_TYPES: Mapping[str, str] = {"reasoning": "reasoning", "text": "message", "call": "function_call"}
INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}


def item_id(part: Part, ids: CallIds) -> str:
    """The id of a part's item."""
    return part_id(ID_PREFIXES[part.kind], ids, part.index)


def text_part(part: Part, text: str) -> dict[str, Any]:
    """The one content part of a reasoning or message item."""
    if part.kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def item_body(part: Part, text: str | None, status: Status, ids: CallIds) -> dict[str, Any]:
    """An output item.

    Args:
        part: what it shows.
        text: its text, or the arguments of a call; None while it has no content yet.
        status: how far it is.
        ids: of the response.
    """
    item: dict[str, Any] = {"id": item_id(part, ids), "type": ITEM_TYPES[part.kind], "status": status}
    if part.kind == "call":
        return item | {"call_id": ids.of(part.call, part.id), "name": part.name, "arguments": text or ""}
    content = [] if text is None else [text_part(part, text)]
    if part.kind == "reasoning":
        return item | {"summary": [], "content": content}
    return item | {"role": "assistant", "content": content}


def ending(finish_reason: str) -> tuple[Status, dict[str, Any] | None]:
    """Status and ``incomplete_details`` of a Response. Only a normal stop completes it."""
    if finish_reason == "stop":
        return "completed", None
    reason = INCOMPLETE.get(finish_reason)
    return "incomplete", {"reason": reason} if reason else None


def usage_body(counts: TokenCounts) -> dict[str, Any]:
    """A Response's ``usage``."""
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.prompt + counts.output,
    }


def response_body(
    request_id: str,
    created: int,
    model: str,
    view: ResponsesRequestView | None,
    *,
    finish_reason: str | None,
    output: Sequence[Mapping[str, Any]],
    usage: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A Response, with what the client asked for repeated in it, as the API does.

    Args:
        request_id: its id.
        created: when it began, in seconds since the epoch.
        model: the served name.
        view: the request, if there is one.
        finish_reason: the engine's; None while it is in progress.
        output: its items.
        usage: None while it is in progress.
    """
    view = view if view is not None else ResponsesRequestView()
    status, incomplete = ("in_progress", None) if finish_reason is None else ending(finish_reason)
    effort = (view.reasoning or {}).get("effort")
    return {
        "id": request_id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": incomplete,
        "instructions": view.instructions,
        "max_output_tokens": view.max_output_tokens,
        "metadata": view.metadata or {},
        "model": model,
        "output": list(output),
        "parallel_tool_calls": view.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {"effort": effort, "summary": None},
        "store": False,
        "temperature": view.temperature,
        "text": view.text or {"format": {"type": "text"}},
        "tool_choice": view.tool_choice or "auto",
        "tools": [{"parameters": None, "strict": None, **tool} for tool in view.tools or ()],
        "top_logprobs": view.top_logprobs,
        "top_p": view.top_p,
        "truncation": view.truncation or "disabled",
        "usage": usage,
        "user": view.user,
    }
