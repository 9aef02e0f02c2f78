"""A resumable JSON scanner: finds where a value ends, and where it stops being JSON, seeing each character once.

State is one short string, ``stack + "|" + expect``, so it goes through a stream state as it is. Strict JSON (RFC 8259)
with one leniency that models need: raw control characters inside strings. What it accepts, ``json_text`` can read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, cast

__all__ = ["BAD", "DONE", "MAX_DEPTH", "START", "check_scan_state", "depth", "in_string", "scan_json"]

MAX_DEPTH: Final = 200
"""Containers nested deeper than this are taken as malformed: readers of the arguments recurse."""

START: Final = "|v"
"""State before a value."""
DONE: Final = "|."
"""State after a complete value."""
BAD: Final = "|!"
"""State after something that is not JSON."""

# What is expected next. v: value, V: value or ], k: key, K: key or }, : and , themselves, s: inside a string, S: inside
# a key (both followed by the beginning of an escape), n: inside a number, l: inside a literal (followed by what is left
# of it). Keys and their like stand in objects only, and what follows a value only in a container.
_INSIDE = r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?"
_ANYWHERE = rf"v|s{_INSIDE}|n[-0d.fe+x]|l(?:rue|ue|e|alse|lse|se|ull|ll|l)"
_STATE = re.compile(
    rf"\|(?:{_ANYWHERE}|[.!])"
    rf"|[\[{{]{{0,{MAX_DEPTH - 1}}}(?:\[\|(?:{_ANYWHERE}|[V,])|{{\|(?:{_ANYWHERE}|[kK:,]|S{_INSIDE}))"
)
_STRING_RUN = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_WHOLE_STRING = re.compile(f'"{_STRING_RUN}"')
# Matches everywhere, if only nothing.
_in_string = cast("Callable[[str, int], re.Match[str]]", re.compile(_STRING_RUN + rf"({_INSIDE})").match)
_SPACE = re.compile(r"[ \t\n\r]*")
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[ \t\n\r,\]}])")
_DIGITS = re.compile(r"[0-9]*")
_LITERALS = {"t": "rue", "f": "alse", "n": "ull"}
_CLOSES = {"{": "}", "[": "]"}

WINDOW = 65536
"""Characters in which a container must end to be passed in one go."""
_begins = re.compile(r'\{[ \t\n\r]*["}]|\[[ \t\n\r]*["{\[\]0-9tfn-]').match


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


# Strings with raw control characters are left to the scanner, which may have to copy them.
_decode = json.JSONDecoder(parse_float=len, parse_int=len, parse_constant=_refuse).raw_decode

# Inside a number: what each state may go on with. -: after the sign, 0: after a leading zero, d: digits,
# .: after the point, f: fraction, e: after the e, +: after its sign, x: exponent.
_NUMBER = {
    "-": {"0": "0", "digit": "d"},
    "0": {".": ".", "e": "e"},
    "d": {"0": "d", "digit": "d", ".": ".", "e": "e"},
    ".": {"0": "f", "digit": "f"},
    "f": {"0": "f", "digit": "f", "e": "e"},
    "e": {"0": "x", "digit": "x", "sign": "+"},
    "+": {"0": "x", "digit": "x"},
    "x": {"0": "x", "digit": "x"},
}
_NUMBER_KINDS = {
    "0": "0",
    ".": ".",
    "e": "e",
    "E": "e",
    "+": "sign",
    "-": "sign",
    **dict.fromkeys("123456789", "digit"),
}
_NUMBER_ENDS = frozenset("0dfx")


def depth(state: str) -> int:
    """How many containers are open."""
    return state.index("|")


def in_string(state: str) -> bool:
    """Whether the scanner stands inside a string."""
    return state[state.index("|") + 1] in "sS"


def check_scan_state(state: str) -> bool:
    """Whether a state from outside is one that the scanner can go on from."""
    return _STATE.fullmatch(state) is not None


def scan_json(text: str, at: int, state: str, stop: int = 0, out: list[str] | None = None) -> tuple[int, str]:
    """Read on from ``text[at]``.

    Args:
        text: text that holds the value; it may end anywhere within.
        at: where to go on.
        state: ``START``, or what the last call returned.
        stop: return as soon as a lexeme ends with this many containers open; 0 reads to the end of the value.
        out: gets the text that was read, with raw control characters inside strings escaped.

    Returns:
        Where it stopped, and the state. It stops at the end of the text, behind a lexeme that ``stop`` asks for, behind
        the value (state ``DONE``), or at the first character that cannot belong to it (state ``BAD``).
    """
    size = len(text)
    if state == START and not stop and out is None:
        end = _end_of_whole(text, at)
        if end:
            return end, DONE
    if state[-1] in "sS" and at < size:  # the inside of a string, as most tokens of long arguments are
        inside = _in_string(text, at)
        if inside.end() == size:
            if out is not None:
                out.append(text[at:])
            return size, state + inside[1]
    bar = state.index("|")
    stack, expect = state[:bar], state[bar + 1 :]
    copied = at
    while at < size and expect not in (".", "!"):
        kind = expect[0]
        if kind in "sS":
            at, expect = _string(text, at, expect)
            if expect == "c":  # a raw control character
                if out is not None:
                    out.append(text[copied:at] + f"\\u{ord(text[at]):04x}")
                    copied = at + 1
                at, expect = at + 1, kind
                continue
        elif kind == "n":
            at, expect = _number(text, at, expect)
        elif kind == "l":
            at, expect = (at + 1, "l" + expect[2:]) if text[at] == expect[1] else (at, "!")
            expect = "," if expect == "l" else expect
        else:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if at == size:
                break
            at, expect, stack = _token(text, at, expect, stack)
        if expect == "," and not stack:
            expect = "."
        if expect != "!" and expect[0] in ":,vVkK" and len(stack) == stop:
            break
    if out is not None and copied < at:
        out.append(text[copied:at])
    return at, ("" if expect in (".", "!") else stack) + "|" + expect


def _end_of_whole(text: str, at: int) -> int:
    """Where the container at ``text[at]`` ends, if it is there to its end; 0 when this cannot be told so easily.

    It looks no further than ``WINDOW``: the library's error counts the lines before it, so that a text of braces that
    begin nothing would take the square of its length.
    """
    if not _begins(text, at):
        return 0
    window = text[at : at + WINDOW]
    if _CLOSES[window[0]] not in window:
        return 0
    try:
        value, size = _decode(window)
    except (ValueError, RecursionError):
        return 0
    opened = window.count("{", 0, size) + window.count("[", 0, size)  # at least as many as ever are open
    return at + size if opened <= MAX_DEPTH or _is_flat(value) else 0


def _is_flat(value: Any) -> bool:
    """Whether no more than ``MAX_DEPTH`` containers are open at once."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = [part.values() if part.__class__ is dict else part for part in level]
        level = [part for parts in inside for part in parts if part.__class__ in (dict, list)]
        if not level:
            return True
    return False


def _token(text: str, at: int, expect: str, stack: str) -> tuple[int, str, str]:
    """Read one token outside strings and numbers."""
    char = text[at]
    if expect in "vV":
        if char == '"':
            return *_open_string(text, at, ","), stack
        if char in "{[":
            if len(stack) == MAX_DEPTH:
                return at, "!", stack
            return at + 1, "K" if char == "{" else "V", stack + char
        if char == "]" and expect == "V":
            return at + 1, ",", stack[:-1]
        if char == "-" or "0" <= char <= "9":
            whole = _WHOLE_NUMBER.match(text, at)
            if whole:
                return whole.end(), ",", stack
            return at + 1, "n" + ("-" if char == "-" else "0" if char == "0" else "d"), stack
        if char in _LITERALS:
            word = _LITERALS[char]
            if text.startswith(word, at + 1):
                return at + 1 + len(word), ",", stack
            return at + 1, "l" + word, stack
        return at, "!", stack
    if expect in "kK":
        if char == '"':
            return *_open_string(text, at, ":"), stack
        if char == "}" and expect == "K":
            return at + 1, ",", stack[:-1]
        return at, "!", stack
    if expect == ":":
        return (at + 1, "v", stack) if char == ":" else (at, "!", stack)
    if char == ",":
        return at + 1, "k" if stack[-1] == "{" else "v", stack
    if char == _CLOSES[stack[-1]]:
        return at + 1, ",", stack[:-1]
    return at, "!", stack


def _open_string(text: str, at: int, after: str) -> tuple[int, str]:
    whole = _WHOLE_STRING.match(text, at)
    if whole:
        return whole.end(), after
    return at + 1, "S" if after == ":" else "s"


def _string(text: str, at: int, expect: str) -> tuple[int, str]:
    """Read on inside a string. The state becomes ``c`` at a raw control character."""
    kind, begun = expect[0], expect[1:]
    inside = _in_string(begun + text[at:], 0) if begun else _in_string(text, at)
    at = inside.end() - len(begun) + (at if begun else 0)
    if at == len(text):
        return at, kind + inside[1]
    if inside[1]:  # no such escape
        return at, "!"
    if text[at] == '"':
        return at + 1, ":" if kind == "S" else ","
    return at, "c"


def _number(text: str, at: int, expect: str) -> tuple[int, str]:
    """Read on inside a number. A character that cannot go on with it ends it."""
    inside = expect[1]
    if inside in "dfx":
        at = _DIGITS.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return at, expect
    char = text[at]
    kind = _NUMBER_KINDS.get(char, "")
    after = _NUMBER[inside].get(kind)
    if after is not None:
        return at + 1, "n" + after
    return at, "," if inside in _NUMBER_ENDS else "!"
