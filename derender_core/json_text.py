"""From the text of a call to a name and arguments that are one strict JSON object.

The model's own characters are kept wherever they are strict JSON. Only what is not (raw control characters, duplicate
keys, an object encoded as a string) is written again, and then numbers keep their digits and non-ASCII stays as it is.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from derender_core.json_scan import DONE, START, scan_json

__all__ = [
    "ARGUMENT_KEYS",
    "Call",
    "dump_json",
    "is_json",
    "normalize_arguments",
    "normalize_json",
    "parse_call",
    "parse_calls",
    "parse_object",
]

ARGUMENT_KEYS: tuple[str, ...] = ("arguments", "parameters")
"""The keys under which a call object holds its arguments; the first that is present wins."""

_CONTROL = re.compile(r"[\x00-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")
_CLOSING = re.compile(r"[ \t\n\r]*\}")
# The scanner bounds the depth; only a state from outside that claims a deeper text was scanned makes decoding recurse.
_UNREADABLE = (ValueError, RecursionError)


class Call(NamedTuple):
    """A complete call: a non-empty name, and arguments that are the text of one strict JSON object."""

    name: str
    arguments: str


class _Member(NamedTuple):
    """A member of an object: where its value stands, and what it is."""

    start: int
    end: int
    value: Any


class _Number(str):
    """A number as the model wrote it."""

    __slots__ = ()


class _Object(dict[str, Any]):
    """An object that knows whether a key of it, or of an object in it, came twice."""

    repeats = False


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    found.repeats = len(found) != len(pairs)
    return found


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_constant,
        strict=strict,
    )


_STRICT, _LENIENT = _decoder(strict=True), _decoder(strict=False)


def _repeats(value: Any) -> bool:
    if isinstance(value, _Object):
        return value.repeats or any(map(_repeats, value.values()))
    return isinstance(value, list) and any(map(_repeats, value))


def dump_json(value: Any) -> str:
    """Compact-free JSON text of plain values, as ``json.dumps`` with non-ASCII kept, numbers of parsed JSON as they
    were written, and lone surrogates escaped."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{dump_json(str(key))}: {dump_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(dump_json, value)) + "]"
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if isinstance(value, str) else text


def _is_strict(text: str) -> bool:
    """Whether a text that can be decoded is strict JSON: no raw control characters inside strings."""
    if not _CONTROL.search(text):
        return True
    try:
        _STRICT.decode(text)
    except ValueError:
        return False
    return True


def is_json(text: str) -> bool:
    """Whether the scanner takes the text for JSON; it bounds the depth, so that decoding cannot run out of stack."""
    at, state = scan_json(text + " ", 0, START)  # a number ends only where something else follows
    return state == DONE and not text[at:].strip(" \t\r\n")


def normalize_json(text: str) -> str | None:
    """A text that the scanner takes for JSON as strict JSON without repeated keys; the same characters where it is."""
    try:
        value = _LENIENT.decode(text)
    except _UNREADABLE:
        return None
    return _rewrite(text, value)


def _rewrite(text: str, value: Any) -> str:
    """``text``, whose value this is, if it is strict JSON without repeated keys; else the value written again."""
    return text if _is_strict(text) and not _repeats(value) else dump_json(value)


def normalize_arguments(text: str) -> str | None:
    """The arguments as the text of one strict JSON object.

    Args:
        text: what stands where the arguments belong, already known to the scanner: an object, the text ``null`` or
            nothing (no arguments), or a string that holds an object.

    Returns:
        The same characters where they are strict JSON without repeated keys; None when they are no object at all.
    """
    text = text.strip(" \t\r\n")
    if not text:
        return "{}"
    try:
        return _arguments(text, _LENIENT.decode(text))
    except _UNREADABLE:
        return None


def _arguments(text: str, value: Any) -> str | None:
    """As ``normalize_arguments``, of a text whose value is known."""
    if value is None:
        return "{}"
    if isinstance(value, str) and not isinstance(value, _Number):
        return normalize_arguments(value) if value.lstrip().startswith("{") and is_json(value) else None
    return _rewrite(text, value) if isinstance(value, dict) else None


def _members(text: str, at: int) -> tuple[dict[str, _Member], int]:
    """An object's members by key (the last of each), and where the object ends.

    Raises:
        ValueError: not an object.
    """
    members: dict[str, _Member] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = _LENIENT.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        value, end = _LENIENT.raw_decode(text, start)
        members[key] = _Member(start, end, value)
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    if text[at : at + 1] != "}":
        raise ValueError("not an object")
    return members, at + 1


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _call(text: str, members: dict[str, _Member], name_key: str, keys: tuple[str, ...], required: bool) -> Call | None:
    if name_key not in members and "function" in members:
        start = members["function"].start
        if text[start] != "{":
            return None
        members = _members(text, start)[0]
    if name_key not in members:
        return None
    name = members[name_key].value
    if isinstance(name, _Number) or not isinstance(name, str) or not name or _SURROGATE.search(name):
        return None
    key = next((key for key in keys if key in members), None)
    if key is None:
        return None if required else Call(name, "{}")
    start, end, value = members[key]
    arguments = _arguments(text[start:end], value)
    return None if arguments is None else Call(name, arguments)


@lru_cache(64)
def _usual_beginning(name_key: str, keys: tuple[str, ...]) -> re.Pattern[str]:
    """A call object with nothing but a plain name and arguments that are an object, up to those."""
    space = _SPACE.pattern
    key = "|".join(map(re.escape, keys))
    name = r"[^\"\\\x00-\x1f\ud800-\udfff]+"
    return re.compile(
        f'{{{space}"{re.escape(name_key)}"{space}:{space}"({name})"{space},{space}"(?:{key})"{space}:{space}(?={{)'
    )


def parse_object(
    text: str, at: int = 0, *, keys: tuple[str, ...] = ARGUMENT_KEYS, required: bool = False, name_key: str = "name"
) -> tuple[Call | None, int]:
    """Read one call object at ``text[at]``, which the scanner found complete.

    Args:
        text: text with the object in it.
        at: where its brace stands.
        keys: keys of the arguments, the preferred first.
        required: whether one of ``keys`` must be there; otherwise a missing one means no arguments.
        name_key: the key of the name.

    Returns:
        The call, or None when the object is not one, and where the object ends.
    """
    try:
        usual = _usual_beginning(name_key, keys).match(text, at)
        if usual:  # nearly all calls: not to look at members one by one takes a third of the time
            start = usual.end()
            value, end = _LENIENT.raw_decode(text, start)
            closing = _CLOSING.match(text, end)
            if closing:
                return Call(usual[1], _rewrite(text[start:end], value)), closing.end()
        members, end = _members(text, at)
        return _call(text, members, name_key, keys, required), end
    except _UNREADABLE:
        return None, at


def parse_call(text: str, *, keys: tuple[str, ...] = ARGUMENT_KEYS, required: bool = False) -> Call | None:
    """The call that a text holds and nothing else, or None."""
    calls = parse_calls(text, keys=keys, required=required)
    return calls[0] if calls and len(calls) == 1 else None


def parse_calls(text: str, *, keys: tuple[str, ...] = ARGUMENT_KEYS, required: bool = False) -> list[Call] | None:
    """The calls of a text that holds call objects one after the other, or one list of them, and nothing else.

    Returns:
        None when anything in it is not a call.
    """
    calls: list[Call] = []
    at = _skip(text, 0)
    listed = text[at : at + 1] == "["
    at = _skip(text, at + listed)
    while text[at : at + 1] == "{":
        call, at = parse_object(text, at, keys=keys, required=required)
        if call is None:
            return None
        calls.append(call)
        at = _skip(text, at)
        if listed and text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    if listed and text[at : at + 1] == "]":
        at, listed = _skip(text, at + 1), False
    return calls if calls and not listed and at == len(text) else None
