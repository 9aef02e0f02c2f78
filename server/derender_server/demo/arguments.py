"""Plausible values for a JSON Schema, as a model would write them.

Whatever a schema spells out is used: ``const``, ``enum``, ``examples``, ``default``, bounds, formats. Other values
come from the user's words where they fit and from a short table of common field names. ``pattern`` and the rarer
keywords are not followed; this is an actor's guess, not a constrained decoder.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ArgumentWriter"]

QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|«([^»]+)»|`([^`]+)`')
NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,6})?(?!\w)")
NAME = re.compile(r"(?<=[\s(])[^\W\d_][\w'’-]*(?: [^\W\d_][\w'’-]*)*")

# Fields that hold what the user said, and what other common fields hold.
WHOLE_QUESTION = frozenset(
    {"query", "question", "q", "prompt", "text", "message", "content", "input", "search", "body"}
)
BY_NAME: Mapping[str, str] = {
    "color": "green",
    "country": "Portugal",
    "currency": "EUR",
    "date": "2025-06-12",
    "email": "ada@example.com",
    "format": "json",
    "id": "a-100",
    "lang": "en",
    "language": "en",
    "path": "notes.txt",
    "time": "09:30",
    "timezone": "UTC",
    "unit": "celsius",
    "units": "metric",
    "uri": "https://example.com",
    "url": "https://example.com",
}
BY_FORMAT: Mapping[str, str] = {
    "date": "2025-06-12",
    "date-time": "2025-06-12T09:30:00Z",
    "duration": "PT1H",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "09:30:00Z",
    "uri": "https://example.com",
    "url": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
FALLBACK = "Lisbon"

BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}

# Schemas come from outside: bounds on what one of them can make us write.
MAX_DEPTH = 12
MAX_VALUES = 500
MAX_ITEMS = 32
MAX_LENGTH = 1000
OPTIONAL_DEPTH = 3  # below it, only required fields are filled in


class ArgumentWriter:
    """Writes values for the schemas in one document.

    Args:
        root: the document; local ``$ref`` are looked up in it.
        question: what the user said; numbers, quoted phrases and proper names in it are used in their order.
        take: another take makes other choices where the schema leaves any.
    """

    def __init__(self, root: object, question: str = "", take: int = 0) -> None:
        self._root = root
        self._question = question
        self._take = take
        self._values = 0
        quoted = ["".join(match) for match in QUOTED.findall(question)]
        self._names = quoted or _proper_names(question)
        self._numbers = [float(number) for number in NUMBER.findall(question)]

    def arguments(self) -> dict[str, Any]:
        """The arguments of a function whose parameters are the document: always an object."""
        value = self.value(self._root, "")
        return value if isinstance(value, dict) else {}

    def value(self, schema: object, name: str, depth: int = 0) -> Any:
        """A value for a schema.

        Args:
            schema: the schema; anything that is not an object allows every value.
            name: the field that the value is for.
            depth: how deep in the document.
        """
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            return None
        resolved = self._resolve(schema)
        if (given := self._given(resolved, depth)) is not None:
            return given[0]
        kind = _kind(resolved)
        if kind == "object":
            return self._object(resolved, depth)
        if kind == "array":
            return self._array(resolved, name, depth)
        if kind in ("integer", "number"):
            return self._number(resolved, whole=kind == "integer")
        if kind == "boolean":
            return self._take % 2 == 0
        return None if kind == "null" else self._string(resolved, name)

    def _resolve(self, schema: object) -> Mapping[str, Any]:
        """The schema with references followed, ``allOf`` joined and the first useful alternative chosen."""
        merged: dict[str, Any] = dict(schema) if isinstance(schema, Mapping) else {}
        for _ in range(MAX_DEPTH):
            if isinstance(reference := merged.pop("$ref", None), str):
                merged = {**_look_up(self._root, reference), **merged}
            elif isinstance(parts := merged.pop("allOf", None), list):
                for part in parts:
                    merged = _join(merged, part)
            elif isinstance(options := merged.pop("anyOf", merged.pop("oneOf", None)), list):
                useful = [option for option in options if _kind(option) != "null"] or options
                merged = _join(merged, useful[0] if useful else {})
            else:
                break
        return merged

    def _given(self, schema: Mapping[str, Any], depth: int) -> tuple[Any] | None:
        """A value that the schema spells out, in a tuple because it may be null."""
        if "const" in schema:
            return (schema["const"],)
        for key in ("enum", "examples"):
            if isinstance(values := schema.get(key), list) and values:
                return (values[(self._take + (self._values if depth > 1 else 0)) % len(values)],)
        if schema.get("default") is not None:
            return (schema["default"],)
        return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        if depth < OPTIONAL_DEPTH:
            names = [*known, *(name for name in names if name not in known)]
        return {name: self.value(known.get(name), name, depth + 1) for name in names}

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        low, high = _bound(schema, "minItems", 1), _bound(schema, "maxItems", MAX_ITEMS)
        first = schema.get("prefixItems")
        items = list(first) if isinstance(first, list) else []
        count = min(max(low, len(items)), high, MAX_ITEMS)
        items += [schema.get("items")] * (count - len(items))
        return [self.value(item, name.removesuffix("s"), depth + 1) for item in items[:count]]

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> int | float:
        step = abs(_finite(schema.get("multipleOf")) or 1.0)
        bounds = {key: _finite(schema.get(key)) for key in BOUNDS}
        known = [bound for bound in bounds.values() if bound is not None]

        def fits(number: float) -> bool:
            held = all(bound is None or BOUNDS[key](number, bound) for key, bound in bounds.items())
            return held and not (whole and number % 1)

        said = next((number for number in self._numbers if fits(number)), None)
        if said is not None:
            self._numbers.remove(said)
            return int(said) if said.is_integer() else said
        guesses = [1.0, *known, *(bound + step for bound in known), *(bound - step for bound in known)]
        guesses = [math.ceil(guess / step) * step for guess in guesses]
        if not whole and known:
            guesses.append(sum(known) / len(known))
        number = next(filter(fits, guesses), 1.0)
        later = number + self._take * step
        number = later if fits(later) else number
        return round(number) if whole else round(number, 6)

    def _string(self, schema: Mapping[str, Any], name: str) -> str:
        text = self._text(str(schema.get("format")), name)
        low, high = _bound(schema, "minLength", 0), _bound(schema, "maxLength", MAX_LENGTH)
        while text and len(text) < min(low, MAX_LENGTH):
            text += " " + text
        return text[: max(min(high, MAX_LENGTH), 0)]

    def _text(self, format_name: str, name: str) -> str:
        if format_name in BY_FORMAT:
            return BY_FORMAT[format_name]
        key = name.lower().rpartition("_")[2]
        if key in WHOLE_QUESTION and self._question:
            return self._question[:MAX_LENGTH]
        if key in BY_NAME:
            return BY_NAME[key]
        return self._names.pop(0) if self._names else FALLBACK


def _proper_names(question: str) -> list[str]:
    """Runs of capitalised words, but for the first word of a sentence."""
    names: list[str] = []
    for run in NAME.finditer(question):
        begins_sentence = question[: run.start()].rstrip()[-1:] in ("", ".", "!", "?", ":")
        words = run[0].split(" ")[1 if begins_sentence else 0 :]
        joined: list[str] = []
        for word in [*words, ""]:
            if word[:1].isupper() and word != "I":
                joined.append(word)
            elif joined:
                names.append(" ".join(joined))
                joined = []
    return names


def _kind(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return "string"
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _look_up(root: object, reference: str) -> Mapping[str, Any]:
    """The schema at a local JSON pointer; an empty one where there is none."""
    here = root
    for part in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else ["?"]:
        if part:
            here = here.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else {}


def _join(left: Mapping[str, Any], right: object) -> dict[str, Any]:
    """Both schemas in one: fields and required names of both, everything else from the right."""
    if not isinstance(right, Mapping):
        return dict(left)
    joined = {**left, **right}
    if isinstance(left.get("properties"), Mapping) and isinstance(right.get("properties"), Mapping):
        joined["properties"] = {**left["properties"], **right["properties"]}
    if isinstance(left.get("required"), list) and isinstance(right.get("required"), list):
        joined["required"] = [*left["required"], *right["required"]]
    return joined


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return None
    return float(value)


def _bound(schema: Mapping[str, Any], key: str, default: int) -> int:
    value = _finite(schema.get(key))
    return default if value is None else max(int(value), 0)
