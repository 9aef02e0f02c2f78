"""``FunctionTagMachine``: ``<function=NAME>`` with a ``<parameter=KEY>`` tag for each argument, one tag a line.

    section   := [opener blank] call+ [blank closer]
    call      := "<function=" NAME ">" blank (parameter blank)* "</function>"
    parameter := "<parameter=" KEY ">" ["\\n"] VALUE ["\\n"] "</parameter>"

Models drop closers here and there. A value without one ends at a line that begins with the tag of another parameter of
the tool, or with the function's closer in front of the section's closer or of a normal end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derender_core.parameter_call import ParameterCallMachine, TagHead

__all__ = ["FunctionTagMachine"]

FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"


@dataclass
class FunctionTagMachine(ParameterCallMachine):
    """Base of tool parsers with <function=…> and <parameter=…> tags. A subclass sets the section's markers."""

    call_openers = (FUNCTION,)
    call_closers = (FUNCTION_END,)
    parameter_openers = (PARAMETER,)
    parameter_closers = (PARAMETER_END,)
    unfinished_is_text = True
    framing = "\n"

    @property
    def value_ends(self) -> tuple[str, ...]:
        """A parameter's tag ends a value too, where the closer is missing."""
        return (PARAMETER_END, FUNCTION_END, PARAMETER)

    def call_head(self, text: str) -> TagHead | None:
        """``<function=NAME>``."""
        return _head(text.removeprefix(FUNCTION))

    def parameter_head(self, text: str) -> TagHead | None:
        """``<parameter=KEY>``."""
        return _head(text.removeprefix(PARAMETER))

    def ends_value(self, at: int, marker: str) -> bool | None:
        """Without its closer a value ends at a tag that begins a line."""
        if marker == PARAMETER_END or not self.framing:  # where newlines are data, no line tells
            return super().ends_value(at, marker)
        if not self._begins_line(at):
            return False
        if marker == FUNCTION_END:
            return self.follows(at + len(marker), self.section_closers, at_end=self.ended_normally)
        return self._is_parameter(at + len(marker))

    def _begins_line(self, at: int) -> bool:
        """Whether a line begins there. What a value that grows has sent never ends in a newline."""
        return self.peek(1, at - 1) == "\n" if at > self.value else not self.grown

    def _is_parameter(self, at: int) -> bool | None:
        """Whether the key that follows is a parameter of the tool, as far as its schema says."""
        end, marker = self.find((">", "\n"), at)
        if marker is None:
            return False if self.final else None
        properties = self.schema.get("properties") if self.schema is not None else None
        if not isinstance(properties, Mapping) or not properties:
            return marker == ">"
        return marker == ">" and self.peek(end - at, at).strip() in properties


def _head(text: str) -> TagHead | None:
    name = text.removesuffix(">").strip()
    return TagHead(name) if name else None
