"""Values that are written as elements within elements, as JSON typed by the tool's JSON Schema.

    value   := TEXT | (blank element)* blank
    element := N"<" KEY ">" value N"</" KEY ">"

N is a marker of the format. A list is written as elements called ``item``, or as one element after another under the
list's own name; any other elements are the members of an object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from derender_core.json_text import dump_json
from derender_core.schema_values import is_text, item_schema, parameter_schema, schema_types, typed_value

__all__ = ["element_json"]

ITEM = "item"
_BLANK = " \t\r\n"


@dataclass
class _Element:
    """An element: its name, where what is in it begins and ends, and the elements in it."""

    name: str
    start: int
    end: int = 0
    children: list[_Element] = field(default_factory=list)


def element_json(text: str, key: str, marker: str, schema: object, root: object) -> str:
    """The JSON text of a parameter's value.

    Args:
        text: what stands between the parameter's tags; where the parameter is repeated, from the first opener to the
            last closer.
        key: the parameter.
        marker: what stands in front of each tag.
        schema: of the parameter; None when nothing is known.
        root: the schema that local references point into.
    """
    return _json(text, _elements(text, key, marker), schema, root)


@lru_cache(maxsize=8)
def _tag(marker: str) -> re.Pattern[str]:
    return re.compile(re.escape(marker) + r"<(?P<end>/?)(?P<name>[^<>/\s][^<>\n]*)>")


def _elements(text: str, key: str, marker: str) -> list[_Element]:
    """The parameter's own elements. A closer closes what is open within its element; one without an opener is text."""
    found = [_Element(key, 0)]
    stack = [found[0]]
    again = re.compile(rf"[{_BLANK}]*{re.escape(marker)}<\s*{re.escape(key)}\s*>")
    for tag in _tag(marker).finditer(text):
        name = tag["name"].strip()
        if tag["end"] and name == key and len(stack) == 1 and not again.match(text, tag.end()):
            continue
        if not tag["end"]:
            element = _Element(name, tag.end())
            (stack[-1].children if stack else found).append(element)
            stack.append(element)
        elif any(element.name == name for element in stack):
            while (element := stack.pop()).name != name:
                element.end = tag.start()
            element.end = tag.start()
    for element in stack:
        element.end = len(text)
    return found


def _json(text: str, elements: Sequence[_Element], schema: object, root: object) -> str:
    """What elements of one name spell."""
    types = schema_types(schema, root)
    if len(elements) > 1 and ("array" in types or not types):
        return _list(text, elements, schema, root)
    element = elements[-1]
    content = text[element.start : element.end]
    if element.children and not (is_text(types) and types):
        return _container(text, element, schema, root)
    value = typed_value(content, types)
    if types - {"null"} == {"array"} and not value.startswith("[") and value != "null":
        return _list(text, elements, schema, root) if content.strip(_BLANK) else "[]"
    return "{}" if types == {"object"} and not content.strip(_BLANK) else value


def _container(text: str, element: _Element, schema: object, root: object) -> str:
    types = schema_types(schema, root)
    if all(child.name == ITEM for child in element.children) and ("array" in types or not types):
        return _list(text, element.children, schema, root)
    if types - {"null"} == {"array"}:
        return f"[{_container(text, element, item_schema(schema, root), root)}]"
    members: dict[str, list[_Element]] = {}
    for child in element.children:
        members.setdefault(child.name, []).append(child)
    values = (
        f"{dump_json(name)}: {_json(text, found, parameter_schema(schema, name, root), root)}"
        for name, found in members.items()
    )
    return "{" + ", ".join(values) + "}"


def _list(text: str, elements: Sequence[_Element], schema: object, root: object) -> str:
    items = item_schema(schema, root)
    return "[" + ", ".join(_json(text, [element], items, root) for element in elements) + "]"
