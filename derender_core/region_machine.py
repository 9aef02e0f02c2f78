"""``RegionMachine`` and ``SectionMachine``: machines whose calls stand in regions of the text.

A call's region begins at the cursor (with its opening marker, if it has one) and is read ahead by ``ahead`` characters.
Nothing of it is consumed until its fate is certain, so a malformed region is still there to be returned as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.hookspecs import State
from derender_core.machine import NEED_DATA, NeedData
from derender_core.tool_machine import BLANK, ToolMachine

__all__ = ["RegionMachine", "SectionMachine"]


@dataclass
class RegionMachine(ToolMachine):
    """Base of tool parsers that read a call ahead before they decide.

    Args:
        ahead: how many characters of the region were read.
        name: the call's name, once it is certain.
    """

    ahead: int = 0
    name: str = ""

    @property
    def outside(self) -> str:
        """The phase outside of calls."""
        return "content"

    def look(self, count: int = 1) -> str:
        """The next unread characters of the region."""
        return self.peek(count, self.ahead)

    def skip_blank(self, also: str = "") -> str:
        """Read over blank text (and the characters of ``also``); the character that follows, ``""`` when none came."""
        at = self._at + self.ahead
        buffer, size, skipped = self.buffer, len(self.buffer), BLANK + also
        while at < size and buffer[at] in skipped:
            at += 1
        self.ahead = at - self._at
        return buffer[at] if at < size else ""

    def stands(self, marker: str) -> bool | None:
        """Whether the marker is what follows in the region; None when that is not certain yet."""
        return self.starts(marker, self.ahead)

    def which(self, markers: tuple[str, ...], offset: int | None = None) -> str | None:
        """The first of ``markers`` that stands at ``offset`` (where the region was read to, when left out).

        Returns:
            ``""`` when there is none, None when the text ends within what may be one.
        """
        undecided = False
        for marker in markers:
            stands = self.starts(marker, self.ahead if offset is None else offset)
            if stands:
                return marker
            undecided = undecided or stands is None
        return None if undecided else ""

    def begin_region(self, opener: str = "") -> None:
        """Begin a region at the cursor, where ``opener`` stands."""
        self.ahead = len(opener)
        self.forget_region()

    def end_region(self, *, as_text: bool = False) -> None:
        """Consume what was read of the region: as text when it was malformed, else silently."""
        if as_text:
            self.malformed(self.take(self.ahead))
        else:
            self.skip(self.ahead)
            self.removed = True
        self.ahead = 0
        self.forget_region()

    def malformed(self, text: str) -> None:
        """A region that is no call: content, markers included."""
        self.content(text)

    def forget_region(self) -> None:
        """Reset what was read of the region."""
        self.name = ""

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``Machine.check``, and that ``ahead`` lies within the buffer."""
        wrong = super().check(state)
        if not wrong and state.get("ahead", 0) > len(state.get("buffer", "")):
            return "field 'ahead' points outside the buffer"
        return wrong


@dataclass
class SectionMachine(RegionMachine):
    """Base of tool parsers whose calls stand in sections between markers of their own.

    Only calls have meaning inside a section; what stands between them is noise. The markers of a section vanish with
    its first good call; a section without one comes back as text, unless it is empty.

    Args:
        section: the open section's text since its last good call, which may have to come back; ``""`` outside.
        bad: the malformed calls of a section without a good one, which come back alone when a good one follows.
        good: whether a call of the open section was good.
    """

    section: str = ""
    bad: str = ""
    good: bool = False

    call_openers: ClassVar[tuple[str, ...]]
    """Markers with which a call begins."""
    section_openers: ClassVar[tuple[str, ...]]
    section_closers: ClassVar[tuple[str, ...]]
    ends_message: ClassVar[tuple[str, ...]] = ()
    """Markers behind which the model runs on into another turn: the rest of the output is ignored."""

    @property
    def outside(self) -> str:
        """Calls stand in a section, or by themselves where the model dropped its marker."""
        return "section" if self.section else "content"

    def open_call(self, opener: str) -> None:
        """Begin the region of a call at the cursor, where ``opener`` stands."""
        raise NotImplementedError

    def begin_section(self, opener: str) -> None:
        """Consume the opener that stands at the cursor."""
        self.set_text("section", self.take(len(opener)))
        self.set_text("bad", "")
        self.good = False
        self.phase = "section"

    def read_section(self) -> NeedData | None:
        """The next call of the section, or its end."""
        markers = (*self.call_openers, *self.section_closers, *self.section_openers, *self.ends_message)
        count, marker = self.find(markers)
        if marker is None and self.final:
            count = self._end_of_noise(markers)
        self.add_text("section", self.take(count))
        if marker is None:
            if self.final:
                self.skip(self.waiting)
                self._end_section()
                self.end_content()
            return NEED_DATA
        if marker in self.call_openers:
            if self.good:
                self.set_text("section", self.section_openers[0])
            self.open_call(marker)
        else:
            self._end_section(self.take(len(marker)) if marker in self.section_closers else "")
        return None

    def _end_of_noise(self, markers: tuple[str, ...]) -> int:
        """Where the section ends that the output ends in: before a marker that was cut, unless all of it is text."""
        cut = self.cut_marker(markers)
        only_calls = self.good or not (self._inside + self.peek(cut)).strip(BLANK)
        return cut if only_calls else self.waiting

    @property
    def _inside(self) -> str:
        """The section's text without its opener."""
        section = self.text_of("section")
        opener = next((opener for opener in self.section_openers if section.startswith(opener)), "")
        return section[len(opener) :]

    def _end_section(self, closer: str = "") -> None:
        """Behind the last call only the section's closer makes noise of what follows."""
        inside = self._inside
        if self.good:
            self.removed = True
            self.content("" if closer else inside)
        elif self.text_of("bad") or inside.strip(BLANK):
            self.content(self.section + closer)
        else:
            self.removed = True
        self.section, self.bad, self.good, self.phase = "", "", False, "content"

    def start_call(self, name: str, call_id: str | None = None) -> None:
        """The first good call of a section makes its markers vanish; malformed calls before it are text."""
        if self.section and not self.good:
            self.content(self.text_of("bad"))
            self.set_text("section", self.section_openers[0])
            self.set_text("bad", "")
            self.good = True
        super().start_call(name, call_id)

    def malformed(self, text: str) -> None:
        """A malformed call is text; in a section without a good call, together with the section."""
        if self.section and not self.good:
            self.add_text("section", text)
            self.add_text("bad", text)
        else:
            self.content(text)

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``RegionMachine.check``, and that an open section begins with its opener."""
        wrong = super().check(state)
        section = state.get("section", "")
        inside = section or state.get("good") or state.get("phase") == "section"
        if not wrong and inside and not section.startswith(cls.section_openers):
            return "field 'section' does not begin with the marker of a section"
        return wrong
