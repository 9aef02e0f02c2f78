"""Values that are written as elements within elements."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derender_core import element_json
from derender_core.schema_values import item_schema

LIST = {"type": "array", "items": {"type": "integer"}}
TREE: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}, "sub": {"$ref": "#"}, "l": LIST}}


def e(name: str, text: str) -> str:
    return f"%<{name}>{text}%</{name}>"


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("x", None, "x"),
        ("4", None, "4"),
        ("4", {"type": "integer"}, 4),
        ("4", {}, 4),
        ("", {"type": "string"}, ""),
        (e("item", "1"), {"type": "string"}, e("item", "1")),
        ("", LIST, []),
        (" \n", LIST, []),
        ("[1, 2]", LIST, [1, 2]),
        ("7", LIST, [7]),
        ("null", {"type": ["array", "null"]}, None),
        ("", {"type": ["array", "null"]}, []),
        (e("item", "1") + e("item", "2"), LIST, [1, 2]),
        (e("item", "1") + e("item", "2"), None, ["1", "2"]),
        (e("item", "1"), {"type": "object"}, {"item": "1"}),
        ("1%</k>%<k>2", LIST, [1, 2]),
        ("1%</k>\n%<k>2", None, ["1", "2"]),
        ("1%</k>%<k>2", {"type": "integer"}, 2),
        (e("n", "1"), TREE, {"n": 1}),
        (e("n", "1") + e("n", "2"), TREE, {"n": 2}),
        (e("l", "1") + e("l", "2"), TREE, {"l": [1, 2]}),
        (e("sub", e("sub", e("n", "3") + e("x", "3"))), TREE, {"sub": {"sub": {"n": 3, "x": "3"}}}),
        ("", TREE, {}),
        (e("n", "1"), {"type": "array", "items": TREE}, [{"n": 1}]),
        (f"{e('n', '1')}%</k>%<k>{e('n', '2')}", {"type": "array", "items": TREE}, [{"n": 1}, {"n": 2}]),
        ("%<n>1", TREE, {"n": 1}),
        ("%<sub>%<n>1%</sub>", TREE, {"sub": {"n": 1}}),
        ("a %</x> b", None, "a %</x> b"),
        ("a %</k> b", None, "a %</k> b"),
        (e("k", "1"), None, {"k": "1"}),
        ("\n" + e("n", "1") + "\n ", TREE, {"n": 1}),
    ],
)
def test_values(text: str, schema: object, value: object) -> None:
    root = TREE if schema is TREE or (isinstance(schema, dict) and schema.get("items") is TREE) else schema
    assert json.loads(element_json(text, "k", "%", schema, root)) == value


@pytest.mark.parametrize(
    ("schema", "items"),
    [
        (None, None),
        ({}, None),
        (LIST, {"type": "integer"}),
        ({"anyOf": [{"type": "null"}, LIST]}, {"type": "integer"}),
        ({"$ref": "#/$defs/l"}, {"type": "integer"}),
        ({"allOf": [{"$ref": "#/$defs/loop"}]}, None),
        ({"items": True}, True),
    ],
)
def test_schemas_of_items(schema: object, items: object) -> None:
    root = {"$defs": {"l": LIST, "loop": {"allOf": [{"$ref": "#/$defs/loop"}]}}}
    assert item_schema(schema, root) == items
