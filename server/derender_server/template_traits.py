"""What a chat template expects of its messages, read from its syntax tree.

Templates declare nothing, so the tree is searched for how they treat a message's ``content``. All rules are about that
one value: an expression is *content* when it is ``.content`` or ``["content"]`` of anything, a variable set from it, or
a macro argument of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from jinja2 import nodes

from derender_server.template_sandbox import parse_template

__all__ = ["TemplateTraits", "template_traits"]

CONTENT = "content"
# Filters that leave a list of parts a list of parts.
LIST_FILTERS = frozenset({"selectattr", "rejectattr", "map", "list", "default", "d", "reverse"})
PART_KEYS = frozenset({"type", "text"})


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """How a template treats messages.

    Args:
        content_format: ``"string"``: it wants text. ``"openai"``: it walks a list of parts. ``"either"``: it tests
            which of the two it was given.
        tests_null_content: it tells null content from empty content (DeepSeek-V3's finds tool calls by it). Templates
            that do not test for null break on it.
        knows_developer: it mentions the ``developer`` role. Others skip or refuse such messages.
    """

    content_format: Literal["string", "openai", "either"]
    tests_null_content: bool
    knows_developer: bool


@lru_cache(maxsize=64)
def template_traits(source: str) -> TemplateTraits:
    """Read a template's traits.

    Raises:
        TemplateError: it is not a template.
    """
    tree = parse_template(source)
    aliases = _content_variables(tree)
    walks = any(_is_content(loop.iter, aliases) for loop in tree.find_all(nodes.For)) or any(
        _reads_part(node, aliases) for node in tree.find_all(nodes.Expr)
    )
    tests = [test for test in tree.find_all(nodes.Test) if _is_content(test.node, aliases)]
    compares = any(_compares_null(node, aliases) for node in tree.find_all(nodes.Compare))
    names = {test.name for test in tests}
    tells_apart = bool(names & {"string", "iterable", "sequence", "mapping"})
    return TemplateTraits(
        content_format=("either" if tells_apart else "openai") if walks else "string",
        tests_null_content="none" in names or compares,
        knows_developer="developer" in source,
    )


def _content_variables(tree: nodes.Template) -> frozenset[str]:
    """Names of variables that hold content, found until nothing new turns up: one may be set from another."""
    found = {
        argument.name for macro in tree.find_all(nodes.Macro) for argument in macro.args if argument.name == CONTENT
    }
    while True:
        fresh = {
            assign.target.name
            for assign in tree.find_all(nodes.Assign)
            if isinstance(assign.target, nodes.Name) and _is_content(assign.node, frozenset(found))
        }
        if fresh <= found:
            return frozenset(found)
        found |= fresh


def _is_content(node: nodes.Node | None, aliases: frozenset[str]) -> bool:
    match node:
        case nodes.Name(name=name):
            return bool(name in aliases)
        case nodes.Getattr(attr=attribute):
            return bool(attribute == CONTENT)
        case nodes.Getitem(arg=nodes.Const(value=key)):
            return bool(key == CONTENT)
        case nodes.Getitem(node=inner, arg=nodes.Slice()):
            return _is_content(inner, aliases)
        case nodes.CondExpr(expr1=chosen, expr2=other):
            return _is_content(chosen, aliases) or _is_content(other, aliases)
        case nodes.Or(left=left, right=right):
            return _is_content(left, aliases) or _is_content(right, aliases)
        case nodes.Filter(node=inner, name=name):
            return name in LIST_FILTERS and _is_content(inner, aliases)
        case nodes.Call(node=nodes.Getattr(attr="get"), args=[nodes.Const(value=key), *_]):
            return bool(key == CONTENT)
    return False


def _reads_part(node: nodes.Expr, aliases: frozenset[str]) -> bool:
    """Whether this is like ``content[0].text``: a key of a part that is taken by its index."""
    match node:
        case nodes.Getattr(attr=key, node=nodes.Getitem(node=parts, arg=nodes.Const(value=int()))):
            pass
        case nodes.Getitem(arg=nodes.Const(value=key), node=nodes.Getitem(node=parts, arg=nodes.Const(value=int()))):
            pass
        case _:
            return False
    return key in PART_KEYS and _is_content(parts, aliases)


def _compares_null(node: nodes.Compare, aliases: frozenset[str]) -> bool:
    """Whether this is ``content == none`` or ``content != none``."""
    return _is_content(node.expr, aliases) and any(
        operand.op in ("eq", "ne") and isinstance(operand.expr, nodes.Const) and operand.expr.value is None
        for operand in node.ops
    )
