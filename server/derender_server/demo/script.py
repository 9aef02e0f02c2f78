"""What the demo engine says: a prompt and the request's tools in, the text of an answer out.

It plays an assistant of the Qwen3 kind. It thinks unless the prompt has turned thinking off; with tools it calls the
first one, with arguments made from its schema; when the tools have answered it repeats what they said; otherwise it
repeats the question. Every answer says that no model made it. The same prompt and take always give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import InputError
from derender_server.demo.arguments import ArgumentWriter
from derender_server.demo.conversation import Conversation

__all__ = ["Cue", "write_answer"]

QUOTE_LENGTH = 400
DISCLAIMER = "This answer is made by the scripted engine of the derender demo, not by a language model."


@dataclass(frozen=True, slots=True)
class Cue:
    """What the engine is asked for.

    Args:
        conversation: the prompt, taken apart.
        tools: the functions offered, as OpenAI writes them, in a ``function`` object or flat.
        tool_choice: ``"none"``, ``"auto"``, ``"required"``, or ``{"type": "function", "function": {"name": ...}}``.
        structured_outputs: the constraint on the output: ``json``, ``json_object``, ``choice`` or ``structural_tag``.
    """

    conversation: Conversation
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    structured_outputs: Mapping[str, Any] | None = None


def write_answer(cue: Cue, take: int = 0) -> str:
    """The text that the engine generates, think block and tool call markup included, without the end token.

    Args:
        cue: what was asked for.
        take: index of the choice; each take differs from the others.

    Raises:
        InputError: the request names a tool that it does not offer, or a constraint that a script cannot follow.
    """
    talk = cue.conversation
    constrained = _constrained(cue, take)
    tool = None if constrained is not None else _tool_to_call(cue)
    marked = f"This is choice {take}. " if take else ""
    if constrained is not None:
        thought, answer = "The form of the answer is given, so I follow it.", constrained
    elif tool is not None:
        thought, answer = f"The tool `{_name(tool)}` is offered, so I call it.", _call(tool, talk.question, take)
    elif talk.results:
        thought, answer = "The tools have answered, so I can use what they returned.", _report(talk)
    else:
        offered = "The tools offered may not be called" if cue.tools else "No tool is offered"
        thought, answer = f"{offered}, so I answer directly.", _reply(talk)
    if talk.thinking:
        asked = f'The user asks: "{_quote(talk.question)}". ' if talk.question else ""
        opener = "" if talk.inside_thoughts else "<think>\n"
        return f"{opener}{marked}{asked}{thought}\n</think>\n\n{answer}"
    if constrained is not None:
        return answer
    return f"{marked.rstrip()}\n{answer}" if marked and tool is not None else marked + answer


def _constrained(cue: Cue, take: int) -> str | None:
    """The answer that the constraint on the output leaves no choice about, or None."""
    constraint = cue.structured_outputs or {}
    for kind in ("regex", "grammar"):
        if constraint.get(kind) is not None:
            raise InputError(
                f"the demo engine cannot follow a {kind}; use json, json_object or choice",
                f"sampling_params.structured_outputs.{kind}",
            )
    choices = constraint.get("choice")
    if isinstance(choices, list) and choices:
        return str(choices[take % len(choices)])
    if (schema := constraint.get("json")) is not None:
        document = _parsed(schema)
        value = ArgumentWriter(document, cue.conversation.question, take).value(document, "")
        return json.dumps(value, ensure_ascii=False)
    if constraint.get("json_object"):
        return json.dumps({"choice": take, "answer": _reply(cue.conversation)}, ensure_ascii=False)
    return None


def _parsed(schema: object) -> object:
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema)
    except ValueError as error:
        param = "sampling_params.structured_outputs.json"
        raise InputError(f"{param} is not JSON: {error}", param) from error


def _tool_to_call(cue: Cue) -> Mapping[str, Any] | None:
    """The tool to call now, or None: then it is time to answer."""
    choice = cue.tool_choice
    if isinstance(choice, Mapping):
        wanted = _name(choice)
        tool = next((tool for tool in cue.tools if _name(tool) == wanted), None)
        if tool is None:
            raise InputError(
                f"tool_choice names `{wanted}`, which is not among the tools offered", "parse_context.tool_choice"
            )
        return tool
    if choice == "none" or not cue.tools:
        return None
    done = bool(cue.conversation.results) or cue.conversation.continues
    return None if done and choice != "required" else cue.tools[0]


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def _name(tool: Mapping[str, Any]) -> str:
    return str(_function(tool).get("name", ""))


def _call(tool: Mapping[str, Any], question: str, take: int) -> str:
    arguments = ArgumentWriter(_function(tool).get("parameters"), question, take).arguments()
    call = {"name": _name(tool), "arguments": arguments}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def _report(talk: Conversation) -> str:
    said = "\n".join(_quote(result) for result in talk.results)
    subject = "The tool answered" if len(talk.results) == 1 else "The tools answered"
    return f"{subject}: {said}\n\n{DISCLAIMER}"


def _reply(talk: Conversation) -> str:
    if talk.opening is None or talk.continues:
        return f" ... and so on. {DISCLAIMER}"
    return f'You asked: "{_quote(talk.question)}". {DISCLAIMER}' if talk.question else f"Hello! {DISCLAIMER}"


def _quote(text: str) -> str:
    return text if len(text) <= QUOTE_LENGTH else text[: QUOTE_LENGTH - 1] + "…"
