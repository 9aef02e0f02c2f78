"""``MemberCallMachine``: calls whose arguments are read one by one and written as the members of a JSON object.

A subclass reads the format's markup and says ``begin_member`` and ``add_member`` for each argument, and ``grow_member``
while a text is still coming; this class writes the object. Where calls are sent as they come, a member is sent as soon
as it is complete, and a member that is text is sent while it grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from derender_core.hookspecs import State
from derender_core.json_text import Call, dump_json, normalize_arguments
from derender_core.region_machine import SectionMachine
from derender_core.schema_values import is_text, parameter_schema, schema_types, typed_value

__all__ = ["MemberCallMachine"]


@dataclass
class MemberCallMachine(SectionMachine):
    """Base of tool parsers that write arguments member by member.

    Args:
        key: the member that is being read.
        hint: what the markup says of the type of its value.
        pairs: the members, as JSON text, that are not sent yet; begins with a comma when some are.
        sent: whether the call was announced, so that it cannot be taken back.
        grows: whether the member that is being read may be sent while it grows.
        grown: whether some of it was sent.
    """

    key: str = ""
    hint: str = ""
    pairs: str = ""
    sent: bool = False
    grows: bool = False
    grown: bool = False

    framing: ClassVar[str] = ""
    """The character that may stand once on each side of a value without belonging to it."""

    # -- what a format may do differently ----------------------------------------------------------------------------

    def json_value(self, value: str) -> str:
        """The JSON text of a value, typed by the tool's schema."""
        parameters = self.schema
        return typed_value(value, schema_types(parameter_schema(parameters, self.key), parameters))

    def is_text(self) -> bool:
        """Whether the value of ``key`` is a string whatever its text, so that ``json_value`` only quotes it."""
        parameters = self.schema
        return is_text(schema_types(parameter_schema(parameters, self.key), parameters))

    def may_send(self) -> bool:
        """Whether the member ``key`` may be sent before the call is complete."""
        return True

    def whole_arguments(self, members: str) -> str:
        """The arguments of a complete call, from its members."""
        return normalize_arguments("{" + members + "}") or "{}"

    # -- what a format says ------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the call's arguments, if the tool has one."""
        tool = self.context.tool(self.name)
        return tool.parameters if tool is not None else None

    def announce(self) -> None:
        """The call's name is certain."""
        if self.context.stream_tool_calls == "arguments":
            self.start_call(self.name)
            self.sent = True

    def begin_member(self, key: str, hint: str = "") -> None:
        """The member ``key`` begins."""
        self.key, self.hint = key, hint
        self.grows = self.sent and self.may_send() and self.is_text()

    def grow_member(self, text: str) -> int:
        """Send what is certain of a text that is still being read, unless the member may not grow.

        Args:
            text: what was read of it and not taken into account yet.

        Returns:
            How many characters of ``text`` were; the rest must come again, with what follows.
        """
        lead = "" if self.grown else self.framing
        body = text.removeprefix(lead) if lead else text
        if self.framing:
            body = body.removesuffix(self.framing)
        if not self.grows or not body:
            return 0
        self._send_text(body)
        return len(body) + (len(lead) if lead and text.startswith(lead) else 0)

    def add_member(self, value: str) -> None:
        """The member that was begun is complete: ``value`` is its text, or what ``grow_member`` left of it."""
        if self.framing:
            value = value if self.grown else value.removeprefix(self.framing)
            value = value.removesuffix(self.framing)
        if self.grown:
            self.arguments(_inner(value) + '"')
        else:
            self.pairs = self._with(f"{dump_json(self.key)}: {self.json_value(value)}")
            if self.sent and self.may_send():
                self._send_pairs()
        self.grows = self.grown = False

    def end_members(self) -> None:
        """The call is complete: send it, or what is not sent of it."""
        self.phase = self.outside
        if not self.sent:
            call = Call(self.name, self.whole_arguments(self.pairs))
            self.end_region()
            self.call(call)
            return
        if self.pairs.startswith(","):
            self.arguments("}" if self.pairs == "," else self.pairs + "}")
        else:
            self.arguments(self.whole_arguments(self.pairs))
        self.end_call()
        self.end_region()

    def forget_region(self) -> None:
        """As ``RegionMachine.forget_region``, and the members."""
        super().forget_region()
        self.key, self.hint, self.pairs = "", "", ""
        self.sent = self.grows = self.grown = False

    # -- sending -----------------------------------------------------------------------------------------------------

    def _with(self, member: str) -> str:
        return f"{self.pairs.rstrip(',')}, {member}" if self.pairs else member

    def _send_pairs(self) -> None:
        """Send the members that are not sent yet; ``pairs`` then is a comma, which says that some were."""
        self.arguments(self.pairs if self.pairs.startswith(",") else "{" + self.pairs)
        self.pairs = ","

    def _send_text(self, text: str) -> None:
        if not self.grown:
            self.pairs = self._with(f'{dump_json(self.key)}: "')
            self._send_pairs()
            self.grown = True
        self.arguments(_inner(text))

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``SectionMachine.check``, and that only a call that was announced is sent."""
        wrong = super().check(state)
        if wrong:
            return wrong
        if state.get("sent") and not state.get("calls"):
            return "field 'sent' needs a call"
        if (state.get("grows") or state.get("grown")) and not state.get("sent"):
            return "fields 'grows' and 'grown' need a call that was sent"
        return None


def _inner(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return dump_json(text)[1:-1]
