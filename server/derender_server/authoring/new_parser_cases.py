"""The golden cases that a new project begins with."""

from __future__ import annotations

import json
from typing import Any

from derender_core.registry import Slot

__all__ = ["golden_cases"]

Record = dict[str, Any]

_RING: Record = {
    "name": "ring",
    "parameters": {"type": "object", "properties": {"times": {"type": "integer"}, "note": {"type": "string"}}},
}


def golden_cases(slot: Slot, name: str, opener: str, closer: str) -> list[Record]:
    """Cases for a parser that reads what stands between two markers.

    Args:
        slot: "tool" for JSON calls, "reasoning".
        name: the parser's name.
        opener: the marker in front.
        closer: the marker behind.
    """
    parsers = {"tool": name if slot == "tool" else None, "reasoning": name if slot == "reasoning" else None}
    made = _tool_cases(opener, closer) if slot == "tool" else _reasoning_cases(opener, closer)
    return [{"id": case.pop("id"), "parsers": parsers, **case, "source": "made by hand"} for case in made]


def _tool_cases(opener: str, closer: str) -> list[Record]:
    def call(**arguments: Any) -> str:
        return f"{opener}{json.dumps({'name': 'ring', 'arguments': arguments}, ensure_ascii=False)}{closer}"

    def ring(**arguments: Any) -> Record:
        return {"name": "ring", "arguments": arguments}

    malformed = f"{opener}ring twice{closer}"
    cases: list[Record] = [
        {"id": "one-call", "output": call(times=2), "expected": {"tool_calls": [ring(times=2)]}},
        {
            "id": "text-and-call",
            "output": f"Ringing: {call(note='Łódź')}",
            "expected": {"content": "Ringing: ", "tool_calls": [ring(note="Łódź")]},
            "compare": "soft",
            "notes": "Whether white space before a call belongs to the text differs from format to format.",
        },
        {
            "id": "two-calls",
            "output": f"{call(times=1)}\n{call(times=2)}",
            "expected": {"tool_calls": [ring(times=1), ring(times=2)]},
        },
        {
            "id": "closer-in-a-string",
            "output": call(note=f"a {closer} b"),
            "expected": {"tool_calls": [ring(note=f"a {closer} b")]},
            "notes": "What looks like the end of a call does not end it inside a string.",
        },
        {"id": "no-call", "output": "Nothing to ring.", "expected": {"content": "Nothing to ring."}},
        {
            "id": "cut",
            "output": "Yes. " + call(times=2)[: len(opener) + 12],
            "finish_reason": "length",
            "expected": {"content": "Yes. "},
            "compare": "soft",
            "tags": ["cut"],
            "notes": "Half a call must not be executed.",
        },
        {
            "id": "malformed",
            "output": malformed,
            "expected_error": ["content_passthrough"],
            "tags": ["malformed"],
            "notes": "What is no call is text, and no text is lost.",
        },
    ]
    cases = [{**case, "tools": [_RING]} for case in cases]
    no_tools = {"id": "no-tools", "output": malformed, "expected": {"content": malformed}}
    return [*cases, {**no_tools, "notes": "Without tools in the request, no tool parser runs."}]


def _reasoning_cases(opener: str, closer: str) -> list[Record]:
    return [
        {
            "id": "self-opened",
            "output": f"{opener}Hm.{closer}Yes.",
            "expected": {"reasoning_content": "Hm.", "content": "Yes."},
        },
        {
            "id": "opened-by-the-prompt",
            "reasoning_open": True,
            "output": f"Hm.{closer}Yes.",
            "expected": {"reasoning_content": "Hm.", "content": "Yes."},
        },
        {
            "id": "closed-by-the-prompt",
            "reasoning_open": False,
            "output": "Yes.",
            "expected": {"content": "Yes."},
        },
        {
            "id": "only-reasoning",
            "reasoning_open": True,
            "output": f"Hm.{closer}",
            "expected": {"reasoning_content": "Hm."},
        },
        {
            "id": "cut",
            "reasoning_open": True,
            "output": f"Hm. {closer[:-1]}",
            "finish_reason": "length",
            "expected": {"reasoning_content": f"Hm. {closer[:-1]}"},
            "compare": "soft",
            "notes": "The beginning of a closer that is never finished is text, and no text is lost.",
        },
        {
            "id": "white-space",
            "output": f"{opener}\nHm.\n{closer}\n\nYes.",
            "expected": {"reasoning_content": "Hm.", "content": "Yes."},
            "compare": "soft",
            "notes": "How much white space belongs to the markers differs from format to format.",
        },
    ]
