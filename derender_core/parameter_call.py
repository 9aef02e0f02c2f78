"""``ParameterCallMachine``: calls with a tag for each parameter, such as ``<function=f><parameter=k>v</parameter>…``.

    output  := (text | section | call)*     section := opener (call | noise)* [closer]
    call    := call-tag blank (parameter blank)* call-closer
    parameter := parameter-tag VALUE parameter-closer

Values are raw text: no entities, no stripping. A value's closer counts only when what follows it is something that the
grammar allows there (the follow set); otherwise it is part of the value. A value whose closer is missing ends at the
call's closer, when that is itself followed by what may follow a call. The tool's schema types the values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from derender_core.hookspecs import State
from derender_core.machine import NEED_DATA, NeedData
from derender_core.member_call import MemberCallMachine

__all__ = ["ParameterCallMachine", "TagHead"]

_BLANK = re.compile(r"[ \t\r\n]*")


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
class ParameterCallMachine(MemberCallMachine):
    """Base of tool parsers with a tag for each parameter.

    A subclass sets the markers and reads the heads of tags; what its format does differently with values it overrides.

    Args:
        value: where the value, or the tag, that is being read begins.
    """

    phase: str = "content"
    value: int = 0

    call_closers: ClassVar[tuple[str, ...]]
    parameter_openers: ClassVar[tuple[str, ...]]
    parameter_closers: ClassVar[tuple[str, ...]]
    head_end: ClassVar[str] = ">"
    """What ends the head of a tag."""
    explicit: ClassVar[bool] = False
    """Whether a call's tag is nothing else, even outside of a section; otherwise the function must be offered there."""
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

    def ends_value(self, at: int, marker: str) -> bool | None:
        """Whether the marker at offset ``at`` of the region ends the value; None when what follows must tell."""
        behind = at + len(marker)
        if marker in self.parameter_closers:
            return self.follows(behind, (*self.parameter_openers, *self.call_closers), at_end=True)
        if marker in self.call_closers:
            return self.follows(behind, self.after_call, at_end=self.ended_normally)
        return False

    @property
    def value_ends(self) -> tuple[str, ...]:
        """The markers that may end a value."""
        return (*self.parameter_closers, *self.call_closers)

    @property
    def after_call(self) -> tuple[str, ...]:
        """The markers that may follow a call."""
        return (*self.call_openers, *self.section_closers, *self.section_openers, *self.ends_message)

    # -- text --------------------------------------------------------------------------------------------------------

    def read_content(self) -> NeedData | None:
        """Text until a section or a call begins. A section's closer without its opener is swallowed."""
        markers = (*self.section_openers, *self.call_openers, *self.section_closers, *self.noise, *self.ends_message)
        marker = self.content_until(markers)
        if marker is None:
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

    # -- a call ------------------------------------------------------------------------------------------------------

    def open_call(self, opener: str) -> None:
        """Begin the region of a call at the cursor, where ``opener`` stands."""
        self.begin_region(opener)
        self.phase = "head"

    def forget_region(self) -> None:
        """As ``MemberCallMachine.forget_region``, and where the value begins."""
        super().forget_region()
        self.value = 0

    @property
    def certain(self) -> bool:
        """Whether what stands here can only be a call."""
        return self.explicit or bool(self.section)

    def read_head(self) -> NeedData | None:
        """The call's tag."""
        found = self.find_head(of_call=True)
        if found is None:
            return self._wait()
        end, well_formed = found
        head = self.call_head(self.peek(end)) if well_formed else None
        if not self.certain and (head is None or head.name not in self.context.tool_names):
            self.content(self.take(len(self.which(self.call_openers, 0) or " ")))  # it only looks like a call
            self.ahead, self.phase = 0, "content"
            self.forget_region()
        elif head is None:
            self.phase = "junk"
        else:
            self.ahead, self.name, self.value, self.phase = end, head.name, 0, "parameters"
            self.announce()
            self._consume()
            if head.empty:
                self.end_members()
        return None

    def _consume(self) -> None:
        """Once a call is announced, its region is consumed as it is read."""
        if self.sent:
            self.skip(self.ahead)
            self.ahead = 0

    def read_parameters(self) -> NeedData | None:
        """The next parameter, or the call's closer."""
        markers = (*self.parameter_openers, *self.call_closers)
        marker = self.which(markers) if self.skip_blank() else None
        if marker is None or (not marker and self.is_cut(markers, self.ahead)):
            return self._wait()
        self._consume()
        self.ahead += len(marker)
        if marker in self.call_closers and marker:
            self.end_members()
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
        self.ahead = end
        self._consume()
        self.value, self.phase = self.ahead, "value"
        self.begin_member(head.name, head.hint)
        if head.empty:
            self._end_value("")
        return None

    def read_value(self) -> NeedData | None:
        """A parameter's value."""
        at, marker = self.find(self.value_ends, self.ahead)
        self.ahead = at
        ends = self.ends_value(at, marker) if marker is not None else None
        if marker is None or ends is None:
            grown = self.grow_member(self.peek(at - self.value, self.value)) if self.grows else 0
            self.skip(grown)
            self.ahead -= grown
            return self._wait()
        if not ends:
            self.ahead = at + len(marker)
            return None
        if marker in self.parameter_closers:
            self.ahead = at + len(marker)
        self._end_value(self.peek(at - self.value, self.value))
        return None

    def _end_value(self, value: str) -> None:
        self.phase, self.value = "parameters", 0
        self.add_member(value)
        self._consume()

    def behind_blank(self, offset: int) -> int:
        """Where the blank text at ``offset`` ends."""
        return _BLANK.match(self.buffer, self._at + offset).end() - self._at  # type: ignore[union-attr]

    def follows(self, offset: int, markers: tuple[str, ...], *, at_end: bool | None) -> bool | None:
        """Whether one of ``markers`` stands at ``offset`` behind blank text; None when that is not certain yet.

        When the text ends for good there, or within what may have been such a marker, the answer is ``at_end``.
        """
        at = self.behind_blank(offset)
        if at == self.waiting:
            return at_end if self.final else None
        marker = self.which(markers, at)
        if marker == "" and self.is_cut(markers, at):
            return at_end
        return None if marker is None else marker != ""

    # -- what is no call ---------------------------------------------------------------------------------------------

    def read_junk(self) -> NeedData | None:
        """A malformed call, until a marker ends it."""
        self.ahead, marker = self.find((*self.call_closers, *self.after_call), self.ahead)
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
        as_text = not self.sent and self._unfinished_is_text()
        self.ahead, self.phase = self.waiting, self.outside
        self.end_region(as_text=as_text)
        return None

    def _unfinished_is_text(self) -> bool:
        """Whether the call that the output ends in is text: nobody knows that it is one, or it is malformed."""
        if self.phase == "junk" or (self.phase == "head" and not self.certain):
            return True
        if not self.ended_normally:
            return False
        closed = (self.buffer.find(closer, self._at + self.value) >= 0 for closer in self.call_closers)
        return self.unfinished_is_text or (self.phase == "value" and any(closed))

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``SectionMachine.check``, and that ``value`` lies within what was read."""
        wrong = super().check(state)
        if not wrong and state.get("value", 0) > state.get("ahead", 0):
            return "field 'value' points outside what was read"
        return wrong
