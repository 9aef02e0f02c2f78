"""qwen3_coder: ``<function=NAME>`` with a ``<parameter=KEY>`` tag for each argument, in ``<tool_call>`` tags.

Written by Qwen3-Coder, Qwen3-Coder-Next, Qwen3.5 and later, Nemotron 3, Step 3.5. docs/formats/qwen3_coder.md lists
every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core import MachinePlugin, ParameterCallMachine, TagHead

OPENER, CLOSER = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"


@dataclass
class Qwen3Coder(ParameterCallMachine):
    """A tag for each parameter: Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5."""

    section_openers = (OPENER,)
    section_closers = (CLOSER,)
    call_openers = (FUNCTION,)
    call_closers = (FUNCTION_END,)
    parameter_openers = (PARAMETER,)
    parameter_closers = (PARAMETER_END,)
    unfinished_is_text = True

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

    def frame(self, value: str) -> str:
        """The template puts exactly one newline on each side."""
        return value.removeprefix("\n").removesuffix("\n")

    def ends_value(self, at: int, marker: str) -> bool | None:
        """Without its closer a value ends at a tag that begins a line."""
        if marker == PARAMETER_END:
            return super().ends_value(at, marker)
        if at > self.value and self.peek(1, at - 1) != "\n":
            return False
        if marker == FUNCTION_END:
            return self.follows(at + len(marker), (CLOSER,), at_end=self.ended_normally)
        return self._is_parameter(at + len(marker))

    def _is_parameter(self, at: int) -> bool | None:
        """Whether the key that follows is a parameter of the tool, as far as its schema says."""
        end, marker = self.find((">", "\n"), at)
        if marker is None:
            return False if self.final else None
        tool = self.context.tool(self.name)
        properties = tool.parameters.get("properties") if tool is not None and tool.parameters is not None else None
        key = self.peek(end - at, at).strip()
        return marker == ">" and (not properties or key in properties)


def _head(text: str) -> TagHead | None:
    name = text.removesuffix(">").strip()
    return TagHead(name) if name else None


plugin = MachinePlugin(Qwen3Coder, special_tokens=(OPENER, CLOSER), tool_call_openers=(OPENER, FUNCTION))
