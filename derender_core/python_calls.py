"""Pythonic calls, ``[name(key=value, ...), ...]``: where a list of them ends, and what it holds.

    list := "[" call ("," call)* [","] "]"
    call := name "(" [key "=" value ("," key "=" value)* [","]] ")"
    name := identifier ("." identifier)*, or the name of an offered function

The scanner follows brackets and quotes only and can stop anywhere; its state is one short string that goes through a
stream state as it is. The reader then decides whether the whole list is well-formed.
"""

from __future__ import annotations

import re
from collections.abc import Container

from derender_core.json_call import Progress
from derender_core.json_scan import MAX_DEPTH
from derender_core.json_text import Call, dump_json
from derender_core.python_values import UNREADABLE, LiteralError, ValueReader, python_json

__all__ = [
    "check_python_state",
    "is_python_name",
    "parse_python_calls",
    "python_json",
    "scan_python_list",
]

# The open brackets, a bar, and the string that the scanner stands in: ' a quote that may become a longer one, '' two of
# them, s' inside, t' inside a triple one with the closing quotes seen; with a backslash when the next is escaped.
_STATE = re.compile(r"[\[({]{0,200}\|(?:|['\"]|''|\"\"|s['\"]\\?|t['\"](?:\\|[12])?|!)|")
_CODE = re.compile(r"[^\[\](){}'\"]*")
_INSIDE = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}
_CLOSES = {"]": "[", ")": "(", "}": "{"}
_NAME = re.compile(r"[\w.\-]+")
_KEY = re.compile(r"[^\W\d]\w*")


def check_python_state(state: str) -> bool:
    """Whether a state from outside is one that ``scan_python_list`` can go on from."""
    return _STATE.fullmatch(state) is not None


def scan_python_list(text: str, at: int, state: str, stop: str = "") -> tuple[int, str, Progress]:
    """Read on from ``text[at]`` to the bracket that ends a list, or the parenthesis that ends a call.

    Args:
        text: text that holds the list; it may end anywhere within.
        at: where to go on.
        state: ``""`` at the opening bracket, or what the last call returned.
        stop: a character that begins markers, which cannot stand outside of strings.

    Returns:
        Where it stopped, the state, and how it ended: ``"done"`` behind the closing bracket, ``"bad"`` at a bracket
        that closes another one or is nested too deep or at ``stop``, ``"more"`` at the end of the text.
    """
    stack, _, quote = state.partition("|")
    size = len(text)
    while at < size and quote != "!":
        if quote:
            at, quote = _string(text, at, quote)
            continue
        start, at = at, _CODE.match(text, at).end()  # type: ignore[union-attr]
        if stop and (found := text.find(stop, start, at)) >= 0:
            return found, "|!", "bad"
        if at == size:
            break
        char = text[at]
        if char in "'\"":
            quote = char
        elif char not in _CLOSES:
            if len(stack) == MAX_DEPTH:
                return at, "|!", "bad"
            stack += char
        elif not stack or stack[-1] != _CLOSES[char]:
            return at, "|!", "bad"
        else:
            stack = stack[:-1]
            if not stack:
                return at + 1, "", "done"
        at += 1
    return at, f"{stack}|{quote}", "bad" if quote == "!" else "more"


def _string(text: str, at: int, quote: str) -> tuple[int, str]:
    """Read on in a string."""
    char, kind = text[at], quote[0]
    if kind in "'\"":  # its first quotes: one, or two that are an empty string or begin a triple one
        if char == kind:
            return at + 1, "t" + kind if len(quote) == 2 else quote + kind
        return at, "" if len(quote) == 2 else "s" + kind
    mark, inside = quote[1], quote[2:]
    if inside == "\\":
        return at + 1, quote[:2]
    if not inside:
        at = _INSIDE[mark].match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return at, quote
        char = text[at]
    if char == "\\":
        return at + 1, quote[:2] + "\\"
    if char != mark:
        return at, quote[:2]
    if kind == "s":
        return at + 1, ""
    return at + 1, "" if inside == "2" else quote[:2] + ("2" if inside else "1")


def is_python_name(name: str) -> bool:
    """Whether a name is an identifier, or several with dots between them."""
    return all(part.isidentifier() for part in name.split("."))


def parse_python_calls(text: str, names: Container[str] = ()) -> list[Call] | None:
    """The calls of a text that is one list of them and nothing else.

    Args:
        text: from the opening to the closing bracket.
        names: names of functions that may be no identifiers, such as ``get-time``.

    Returns:
        None when it is anything else; an empty list holds no call. The arguments are the text of a JSON object.
    """
    reader = _CallReader(text)
    calls: list[Call] = []
    try:
        reader.expect("[")
        while not calls or not reader.take("]"):
            if calls:
                reader.expect(",")
                if reader.take("]"):
                    break
            calls.append(reader.call(names))
    except UNREADABLE:
        return None
    return calls if reader.at == len(text) else None


class _CallReader(ValueReader):
    """Reads calls."""

    def call(self, names: Container[str]) -> Call:
        self.blank()
        name = self._match(_NAME)
        if name not in names and not is_python_name(name):
            raise LiteralError
        self.expect("(")
        arguments: dict[str, str] = {}
        while not self.take(")"):
            if arguments:
                self.expect(",")
                if self.take(")"):
                    break
            self.blank()
            key = self._match(_KEY)
            if key in arguments:
                raise LiteralError
            self.expect("=")
            self.blank()
            arguments[key] = self.value(0)
        return Call(name, "{" + ", ".join(f"{dump_json(key)}: {value}" for key, value in arguments.items()) + "}")

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise LiteralError
        self.at = found.end()
        return found[0]
