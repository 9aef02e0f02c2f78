"""Python literals as JSON text, as models write them in calls.

    value := string+ | number | "True" | "False" | "None" | "true" | "false" | "null"
           | "[" values "]" | "(" values ")" | "{" values "}" | "{" pairs "}"

It is not ``ast``: models write line breaks into ordinary strings and mix in JSON's literals, and what comes out keeps
the digits of numbers and the order of sets. Nothing is ever evaluated.
"""

from __future__ import annotations

import re

from derender_core.json_scan import MAX_DEPTH
from derender_core.json_text import dump_json

__all__ = ["UNREADABLE", "LiteralError", "ValueReader", "python_json"]

_SPACE = re.compile(r"[ \t\r\n\f]*")
_WORD = re.compile(r"\w+")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_STRING = re.compile(
    r"(?P<prefix>[A-Za-z]{0,2})"
    r"(?:\"\"\"(?P<a>[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*)\"\"\""
    r"|'''(?P<b>[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*)'''"
    r"|\"(?!\"\")(?P<c>[^\"\\]*(?:\\.[^\"\\]*)*)\""
    r"|'(?!'')(?P<d>[^'\\]*(?:\\.[^'\\]*)*)')",
    re.DOTALL,
)
_PREFIXES = frozenset({"", "r", "u", "f", "fr", "rf"})
_OPENS_STRING = re.compile(r"[A-Za-z]{0,2}[\"']")
_FLOAT = re.compile(
    r"(?P<whole>[0-9](?:_?[0-9])*)?(?P<point>\.)?(?P<fraction>(?<=\.)[0-9](?:_?[0-9])*)?"
    r"(?P<exponent>[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_BASED = re.compile(r"0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)")
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<line>\r?\n)|(?P<char>.))",
    re.DOTALL,
)
_ESCAPED = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_BRACE = re.compile(r"\{\{|\}\}|[{}]")
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_KEY_OF_NUMBER = re.compile(r"-?[0-9]")


class LiteralError(ValueError):
    """The text is no value of the format. Never leaves the functions that use a reader."""


UNREADABLE = (LiteralError, RecursionError)
"""What a reader may raise. The depth is bounded, but the caller's stack may be nearly full."""


def python_json(text: str) -> str | None:
    """The JSON text of the Python literal that a text is, or None when it is none.

    Tuples and sets become arrays, keys that are numbers become strings; non-ASCII stays as it is.
    """
    reader = ValueReader(text)
    try:
        reader.blank()
        value = reader.value(0)
        reader.blank()
    except UNREADABLE:
        return None
    return value if reader.at == len(text) else None


class ValueReader:
    """A cursor over a text. Its methods read what stands there or raise ``LiteralError``.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def blank(self) -> str:
        """Read over white space; the character that follows, ``""`` at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def expect(self, char: str) -> None:
        """Read over white space and this character."""
        if self.blank() != char:
            raise LiteralError
        self.at += 1

    def take(self, char: str) -> bool:
        """Read over white space, and over this character if it follows."""
        if self.blank() != char:
            return False
        self.at += 1
        return True

    def value(self, depth: int) -> str:
        """The JSON text of the value at the cursor."""
        if depth >= MAX_DEPTH:
            raise LiteralError
        char = self.text[self.at : self.at + 1]
        if char in "[(" and char:
            self.at += 1
            return self._items("]" if char == "[" else ")", depth, [])
        if char == "{":
            self.at += 1
            return self._braces(depth)
        if _OPENS_STRING.match(self.text, self.at):
            return dump_json(self._strings())
        if char == "-":
            self.at += 1
            self.blank()
            return "-" + self._number()
        if char.isdecimal() or char == ".":
            return self._number()
        word = _WORD.match(self.text, self.at)
        if word is None or word[0] not in _WORDS:
            raise LiteralError
        self.at = word.end()
        return _WORDS[word[0]]

    # -- containers --------------------------------------------------------------------------------------------------

    def _items(self, closer: str, depth: int, items: list[str]) -> str:
        """A list, a tuple or a set up to its closer; or one value in parentheses."""
        comma = False
        while not self.take(closer):
            if items:
                self.expect(",")
                comma = True
                if self.take(closer):
                    break
            self.blank()
            items.append(self.value(depth + 1))
        if closer == ")" and len(items) == 1 and not comma:
            return items[0]
        return "[" + ", ".join(items) + "]"

    def _braces(self, depth: int) -> str:
        """A dict or a set. Of keys that come twice the last counts, as in Python."""
        pairs: dict[str, str] = {}
        while not self.take("}"):
            if pairs:
                self.expect(",")
                if self.take("}"):
                    break
            self.blank()
            key = self.value(depth + 1)
            if not pairs and self.blank() != ":":
                return self._items("}", depth, [key])
            self.expect(":")
            self.blank()
            pairs[_key(key)] = self.value(depth + 1)
        return "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"

    # -- numbers -----------------------------------------------------------------------------------------------------

    def _number(self) -> str:
        based = _BASED.match(self.text, self.at)
        found = based or _FLOAT.match(self.text, self.at)
        if found is None or not found[0] or self.text[found.end() : found.end() + 1].isidentifier():
            raise LiteralError
        self.at = found.end()
        if based:
            return _decimal(based[0])
        whole, fraction, exponent = ((found[name] or "").replace("_", "") for name in ("whole", "fraction", "exponent"))
        if not found["point"] and not exponent and whole.strip("0") and whole.startswith("0"):
            raise LiteralError  # 0123 is no number, neither in Python nor in JSON
        if not whole and not fraction:
            raise LiteralError
        point = "." + (fraction or "0") if found["point"] else ""
        return (whole.lstrip("0") or "0") + point + exponent

    # -- strings -----------------------------------------------------------------------------------------------------

    def _strings(self) -> str:
        """One string, or several that stand side by side."""
        parts = []
        while _OPENS_STRING.match(self.text, self.at):
            parts.append(self._string())
            self.blank()
        return _PAIR.sub(_join_pair, "".join(parts))

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise LiteralError
        prefix = found["prefix"].lower()
        if prefix not in _PREFIXES:
            raise LiteralError
        self.at = found.end()
        body = next(part for part in found.group("a", "b", "c", "d") if part is not None)
        if "f" in prefix:
            body = _BRACE.sub(_brace, body)
        return body if "r" in prefix else _ESCAPE.sub(_unescape, body)


def _key(value: str) -> str:
    """The key that a value's JSON text becomes: a string stays, a number becomes one, nothing else is a key."""
    if value.startswith('"'):
        return value
    if _KEY_OF_NUMBER.match(value):
        return f'"{value}"'
    raise LiteralError


def _decimal(number: str) -> str:
    try:
        return str(int(number, 0))
    except ValueError as error:  # more digits than the interpreter converts
        raise LiteralError from error


def _brace(found: re.Match[str]) -> str:
    if len(found[0]) == 1:
        raise LiteralError  # a placeholder: what it stands for is unknown
    return found[0][0]


def _unescape(found: re.Match[str]) -> str:
    """One escape. Those that Python does not know stay as they are, as in Python."""
    if found["char"] is not None:
        return _ESCAPED.get(found["char"], found[0])
    if found["line"] is not None:
        return ""
    if found["octal"] is not None:
        return chr(int(found["octal"], 8))
    code = int(found["x"] or found["u"] or found["U"], 16)
    return chr(code) if code <= 0x10FFFF else found[0]


def _join_pair(found: re.Match[str]) -> str:
    return (found[1] + found[2]).encode("utf-16", "surrogatepass").decode("utf-16")
