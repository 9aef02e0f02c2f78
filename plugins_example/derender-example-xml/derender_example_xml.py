"""A tool parser for calls written as XML.

    output := (text | call)*
    call   := '<call name="' NAME '">' (blank '<arg name="' KEY '">' value '</arg>')* blank '</call>'

A call is held back until it is closed. Then it is sent, or, when it is malformed, it comes back as the text it was.
What the output leaves open at its end is dropped. Values have no quotes: the tool's JSON Schema tells what they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derender_core import (
    NEED_DATA,
    Call,
    MachinePlugin,
    NeedData,
    ParseContext,
    ToolMachine,
    dump_json,
    parameter_schema,
    schema_types,
    typed_value,
)

OPENER, CLOSER = "<call ", "</call>"
HEAD = re.compile(r'<call name="([^"<>]+)">')
ARG = re.compile(r'\s*<arg name="([^"<>]+)">(.*?)</arg>', re.DOTALL)


@dataclass
class ExampleXml(ToolMachine):
    """Calls as <call name="..."><arg name="...">...</arg></call>: an example."""

    ahead: int = 0

    trim = False

    def read_start(self) -> NeedData | None:
        """Text, up to the next call."""
        count, opener = self.find((OPENER,))
        self.content(self.take(count))
        if opener is None:
            if self.final:
                self.end_content()
            return NEED_DATA
        self.phase, self.ahead = "call", len(OPENER)
        return None

    def read_call(self) -> NeedData | None:
        """A call, which stays in the buffer until its end has come. What was searched is not searched again."""
        self.ahead, closer = self.find((CLOSER,), self.ahead)
        if closer is None and not self.final:
            return NEED_DATA
        region = self.take(self.ahead + len(CLOSER))
        call = parse_call(region, self.context)
        if call is not None:
            self.call(call)
        elif closer is not None:
            self.content(region)
        else:
            self.removed = True
        self.phase, self.ahead = "start", 0
        return None

    @classmethod
    def check(cls, state: dict[str, object]) -> str | None:
        """A position in a state from outside must lie within the buffer."""
        wrong = super().check(state)
        if not wrong and state.get("ahead", 0) > len(state.get("buffer", "")):  # type: ignore[operator, arg-type]
            return "field 'ahead' points outside the buffer"
        return wrong


def parse_call(region: str, context: ParseContext) -> Call | None:
    """The call that a region holds, or None when it is malformed."""
    head = HEAD.match(region)
    if head is None:
        return None
    schema = next((tool.parameters for tool in context.tools if tool.name == head[1]), None)
    arguments: dict[str, str] = {}
    at = head.end()
    while found := ARG.match(region, at):
        types = schema_types(parameter_schema(schema, found[1]), schema)
        arguments[found[1]] = typed_value(found[2], types)
        at = found.end()
    if region[at:].strip() != CLOSER:
        return None
    return Call(head[1], "{" + ", ".join(f"{dump_json(key)}: {value}" for key, value in arguments.items()) + "}")


plugin = MachinePlugin(ExampleXml, tool_call_openers=(OPENER,))
