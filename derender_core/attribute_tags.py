"""``AttributeTagMachine``: tags with attributes, such as ``<invoke name="f"><parameter name="k">v</parameter>``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from derender_core.parameter_call import ParameterCallMachine, TagHead

__all__ = ["AttributeTagMachine"]

_ATTRIBUTE = re.compile(r"""\s+([^\s=<>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""")


@dataclass
class AttributeTagMachine(ParameterCallMachine):
    """Base of tool parsers whose tags name functions and parameters in attributes.

    The order of attributes, their quotes and attributes that nobody knows are free.
    """

    name_attribute: ClassVar[str] = "name"
    hint_attribute: ClassVar[str] = ""
    """The attribute of a parameter's tag that tells the type of its value, if there is one."""

    def call_head(self, text: str) -> TagHead | None:
        """The tag of a call, which names it."""
        return self._head(text, self.call_openers)

    def parameter_head(self, text: str) -> TagHead | None:
        """The tag of a parameter, which names it."""
        return self._head(text, self.parameter_openers)

    def _head(self, text: str, openers: tuple[str, ...]) -> TagHead | None:
        opener = next((opener for opener in openers if text.startswith(opener)), "")
        inside = text[len(opener) :].removesuffix(self.head_end)
        empty = inside.endswith("/")
        attributes = read_attributes(inside.removesuffix("/"))
        name = attributes.get(self.name_attribute, "").strip() if attributes is not None else ""
        if attributes is None or not name:
            return None
        return TagHead(name, attributes.get(self.hint_attribute, ""), empty)


def read_attributes(text: str) -> dict[str, str] | None:
    """The attributes that a text holds and nothing else, or None; the first of each name counts."""
    attributes: dict[str, str] = {}
    at = 0
    while found := _ATTRIBUTE.match(text, at):
        value = next(part for part in found.groups()[1:] if part is not None)
        attributes.setdefault(found[1], value)
        at = found.end()
    return attributes if not text[at:].strip() else None
