"""``ParameterCallMachine``: calls with a tag for each parameter, such as ``<function=f><parameter=k>v</parameter>…``.

    output  := (text | section | call)*     section := opener (call | noise)* [closer]
    call    := call-tag blank (parameter blank)* call-closer
    parameter := parameter-tag VALUE parameter-closer

Values are raw text: no entities, no stripping. A value's closer counts only when what follows it is something that the
grammar allows there (the follow set); otherwise it is part of the value. A value whose closer is missing ends at the
call's closer, when that is itself followed by what may follow a call. The tool's schema types the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from derender_core.hookspecs import State
from derender_core.json_text import Call, dump_json, normalize_arguments
from derender_core.machine import NEED_DATA, NeedData
from derender_core.region_machine import SectionMachine
from derender_core.schema_values import parameter_schema, schema_types, typed_value
from derender_core.tool_machine import BLANK

__all__ = ["ParameterCallMachine", "TagHead"]


class TagHead(NamedTuple):
    """The head of a tag.

    Args:
        name: of the function or the parameter.
        hint: what a parameter's tag says of the type of its value.
        empty: the tag closes itself.
    """

    name: str
    hint: str = ""
    empty: bool = False


@dataclass
class ParameterCallMachine(SectionMachine):
    """Base of tool parsers with a tag for each parameter.

    A subclass sets the markers and reads the heads of tags; what its format does differently with values it overrides.

    Args:
        key: the parameter that is being read.
        hint: what its tag says of the type of its value.
        value: where its value, or its tag, begins.
        pairs: the members of the arguments, as JSON text, that are not sent yet; begins with a comma when some are.
        sent: whether the call was announced, so that it cannot be taken back.
    """

    phase: str = "content"
    key: str = ""
    hint: str = ""
    value: int = 0
    pairs: str = ""
    sent: bool = False

    call_closers: ClassVar[tuple[str, ...]]
    parameter_openers: ClassVar[tuple[str, ...]]
    parameter_closers: ClassVar[tuple[str, ...]]
    head_end: ClassVar[str] = ">"
    """What ends the head of a tag."""
    bare_calls: ClassVar[bool] = True
    """Whether a call may stand outside of a section, when its function is offered."""
    unfinished_is_text: ClassVar[bool] = False
    """Whether a call that the model left open at a normal end is text; otherwise it is dropped."""
    noise: ClassVar[tuple[str, ...]] = ()
    """Markers that are never text: they vanish."""

    # -- what a format may do differently ----------------------------------------------------------------------------

    def call_head(self, text: str) -> TagHead | None:
        """Read the head of a call's tag, from its opener to its end; None when it is malformed."""
        raise NotImplementedError

    def parameter_head(self, text: str) -> TagHead | None:
        """Read the head of a parameter's tag, from its opener to its end; None when it is malformed."""
        raise NotImplementedError

    def find_head(self, *, of_call: bool) -> tuple[int, bool] | None:  # noqa: ARG002
        """Where the head that is being read ends, and whether it is well-formed so far; None to wait.

        A head is one line without another tag in it.
        """
        at, marker = self.find((self.head_end, "\n", "<"), self.ahead)
        if marker is None:
            self.ahead = at
            return None
        return (at + len(marker), True) if marker == self.head_end else (at, False)

    def frame(self, value: str) -> str:
        """A value without the white space that only frames it."""
        return value

    def json_value(self, value: str) -> str:
        """The JSON text of a value, typed by the tool's schema."""
        tool = self.context.tool(self.name)
        parameters = tool.parameters if tool is not None else None
        return typed_value(value, schema_types(parameter_schema(parameters, self.key), parameters))

    def ends_value(self, at: int, marker: str) -> bool | None:
        """Whether the marker at offset ``at`` of the region ends the value; None when what follows must tell."""
        behind = at + len(marker)
        if marker in self.parameter_closers:
            return self.follows(behind, (*self.parameter_openers, *self.call_closers), at_end=True)
        if marker in self.call_closers:
            after = (*self.call_openers, *self.section_closers, *self.section_openers)
            return self.follows(behind, after, at_end=self.ended_normally)
        return False

    @property
    def value_ends(self) -> tuple[str, ...]:
        """The markers that may end a value."""
        return (*self.parameter_closers, *self.call_closers)

    def whole_arguments(self, members: str) -> str:
        """The arguments of a complete call, from its members."""
        return normalize_arguments("{" + members + "}") or "{}"

    def may_send(self) -> bool:
        """Whether the parameter that was just read may be sent before the call is complete."""
        return True

    # -- text --------------------------------------------------------------------------------------------------------

    def read_content(self) -> NeedData | None:
        """Text until a section or a call begins. A section's closer without its opener is swallowed."""
        calls = self.call_openers if self.bare_calls else ()
        markers = (*self.section_openers, *calls, *self.section_closers, *self.noise, *self.ends_message)
        count, marker = self.find(markers)
        self.content(self.take(count))
        if marker is None:
            if self.final:
                self.end_content()
            return NEED_DATA
        if marker in self.section_openers:
            self.begin_section(marker)
        elif marker in self.call_openers:
            self.open_call(marker)
        elif marker in self.ends_message:
            self.phase = "done"
        else:
            self.skip(len(marker))
            self.removed = self.removed or marker in self.section_closers
        return None

    def read_done(self) -> NeedData:
        """The message is over."""
        self.skip(self.waiting)
        if self.final:
            self.end_content()
        return NEED_DATA

    # -- a call ------------------------------------------------------------------------------------------------------

    def open_call(self, opener: str) -> None:
        """Begin the region of a call at the cursor, where ``opener`` stands."""
        self.begin_region(opener)
        self.phase = "head"

    def forget_region(self) -> None:
        """As ``RegionMachine.forget_region``, and the parameters."""
        super().forget_region()
        self.key, self.hint, self.value, self.pairs, self.sent = "", "", 0, "", False

    def read_head(self) -> NeedData | None:
        """The call's tag."""
        found = self.find_head(of_call=True)
        if found is None:
            return self._wait()
        end, well_formed = found
        head = self.call_head(self.peek(end)) if well_formed else None
        if not self.section and (head is None or head.name not in self.context.tool_names):
            self.content(self.take(self._opener_length()))  # it only looks like a call
            self.ahead, self.phase = 0, "content"
            self.forget_region()
        elif head is None:
            self.phase = "junk"
        else:
            self.ahead, self.name, self.phase = end, head.name, "parameters"
            self._announce()
            if head.empty:
                self._close()
        return None

    def _opener_length(self) -> int:
        return len(self.which(self.call_openers, 0) or " ")

    def _announce(self) -> None:
        if self.context.stream_tool_calls == "arguments":
            self.start_call(self.name)
            self.sent = True
            self._consume()

    def _consume(self) -> None:
        """Once a call is announced, its region is consumed as it is read."""
        if self.sent:
            self.skip(self.ahead)
            self.ahead = 0

    def read_parameters(self) -> NeedData | None:
        """The next parameter, or the call's closer."""
        marker = self.which((*self.parameter_openers, *self.call_closers)) if self.skip_blank() else None
        if marker is None:
            return self._wait()
        self._consume()
        self.ahead += len(marker)
        if marker in self.call_closers and marker:
            self._close()
        else:
            self.phase, self.value = ("key" if marker else "junk"), self.ahead - len(marker)
        return None

    def read_key(self) -> NeedData | None:
        """A parameter's tag."""
        found = self.find_head(of_call=False)
        if found is None:
            return self._wait()
        end, well_formed = found
        head = self.parameter_head(self.peek(end - self.value, self.value)) if well_formed else None
        if head is None:
            self.phase = "junk"
            return None
        self.key, self.hint, self.ahead = head.name, head.hint, end
        self._consume()
        self.value, self.phase = self.ahead, "value"
        if head.empty:
            self._add("")
        return None

    def read_value(self) -> NeedData | None:
        """A parameter's value."""
        at, marker = self.find(self.value_ends, self.ahead)
        self.ahead = at
        if marker is None:
            return self._wait()
        ends = self.ends_value(at, marker)
        if ends is None:
            return self._wait()
        if not ends:
            self.ahead = at + len(marker)
            return None
        if marker in self.parameter_closers:
            self.ahead = at + len(marker)
        self._add(self.frame(self.peek(at - self.value, self.value)))
        return None

    def _add(self, value: str) -> None:
        member = f"{dump_json(self.key)}: {self.json_value(value)}"
        self.phase = "parameters"
        self.pairs = f"{self.pairs.rstrip(',')}, {member}" if self.pairs else member
        if self.sent and self.may_send():
            self._send_members()
        self._consume()
        self.value = 0

    def _send_members(self) -> None:
        """Send the members that are not sent yet; ``pairs`` then is a comma, which says that some were."""
        lead = "" if self.pairs.startswith(",") else "{"
        self.arguments(lead + self.pairs)
        self.pairs = ","

    def follows(self, offset: int, markers: tuple[str, ...], *, at_end: bool) -> bool | None:
        """Whether one of ``markers`` stands at ``offset`` behind blank text; ``at_end`` when nothing does."""
        at, size = self._at + offset, len(self.buffer)
        while at < size and self.buffer[at] in BLANK:
            at += 1
        if at == size:
            return at_end if self.final else None
        marker = self.which(markers, at - self._at)
        return None if marker is None else marker != ""

    def _close(self) -> None:
        self.phase = self.outside
        if self.sent:
            self._send_end()
            self.end_region()
            return
        call = Call(self.name, self.whole_arguments(self.pairs))
        self.end_region()
        self.call(call)

    def _send_end(self) -> None:
        if self.pairs.startswith(","):
            self.arguments("}" if self.pairs == "," else self.pairs + "}")
        else:
            self.arguments(self.whole_arguments(self.pairs))
        self.end_call()

    # -- what is no call ---------------------------------------------------------------------------------------------

    def read_junk(self) -> NeedData | None:
        """A malformed call, until a marker ends it."""
        ends = (*self.call_closers, *self.section_closers, *self.call_openers, *self.section_openers)
        self.ahead, marker = self.find((*ends, *self.ends_message), self.ahead)
        if marker is None:
            return self._wait()
        if marker in self.call_closers:
            self.ahead += len(marker)
        as_text, self.phase = not self.sent, self.outside
        self.end_region(as_text=as_text)
        return None

    def _wait(self) -> NeedData | None:
        if not self.final:
            return NEED_DATA
        only_head = self.phase == "head" and not self.section  # nobody knows yet whether it is a call
        as_text = only_head or (self.unfinished_is_text and self.ended_normally and not self.sent)
        self.ahead, self.phase = self.waiting, self.outside
        self.end_region(as_text=as_text)
        return None

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``SectionMachine.check``, and that ``value`` lies within what was read."""
        wrong = super().check(state)
        if not wrong and state.get("value", 0) > state.get("ahead", 0):
            return "field 'value' points outside what was read"
        return wrong
