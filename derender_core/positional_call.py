"""``PositionalCallMachine``: calls that are known by where they stand, since nothing need stand in front of them.

    answer := blank calls text  |  text tag blank calls text  |  text
    calls  := call (separator call)*

A call is looked for where the answer begins, behind a tag (a marker that the model may write in front of its calls),
behind another call, and where a message begins that the model ran on into. Everywhere else a brace is text. Without a
tag only the name of an offered function makes an object a call.

Blank text and separators between calls vanish. When no call follows they are text, and markers vanish even then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.json_call import JsonCallMachine
from derender_core.json_text import ARGUMENT_KEYS, Call, parse_call
from derender_core.machine import NEED_DATA, NeedData

__all__ = ["PositionalCallMachine"]


@dataclass
class PositionalCallMachine(JsonCallMachine):
    """Base of tool parsers whose calls are bare ``{"name", "arguments" | "parameters"}`` objects.

    A region is a gap (blank text, separators, markers) and the call behind it, which begins at ``body``. A subclass
    sets its markers, and overrides ``begin`` where its calls have other forms, too.

    Args:
        tagged: whether a tag stands in front of the calls.
        after: whether the region stands behind a call.
        refused: whether the object has a name that cannot be called here.
    """

    phase: str = "gap"
    tagged: bool = False
    after: bool = False
    refused: bool = False

    trim = False
    streamed_keys = ARGUMENT_KEYS

    tags: ClassVar[tuple[str, ...]] = ()
    """Markers in front of calls."""
    noise: ClassVar[tuple[str, ...]] = ()
    """Markers that are never text, such as the end of a message: they vanish."""
    closers: ClassVar[tuple[str, ...]] = ()
    """Markers that vanish behind a call and are text elsewhere."""
    header: ClassVar[str] = ""
    """What begins the header of a message, if the format has headers. One of another role ends the answer."""
    run_on: ClassVar[str] = ""
    """The header, complete, of another message of the assistant. It vanishes."""
    separators: ClassVar[str] = ";,"
    """Characters that may stand between calls, besides blank text."""

    # -- text --------------------------------------------------------------------------------------------------------

    def read_text(self) -> NeedData | None:
        """Text in which only a tag can begin a call."""
        return self.pass_text(self.tags)

    def read_rest(self) -> NeedData | None:
        """Text behind broken JSON: nothing can begin a call."""
        return self.pass_text(())

    def pass_text(self, openers: tuple[str, ...]) -> NeedData | None:
        """Pass text on until one of ``openers``, where a region begins. Noise and headers vanish."""
        marker = self.content_until((*openers, *self.noise, self.header) if self.header else (*openers, *self.noise))
        if marker is None:
            return NEED_DATA
        if marker in openers:
            self.open(marker)
        elif marker == self.header:
            self.phase = "header"
        else:
            self.skip(len(marker))
            self.removed = True
        return None

    def open(self, marker: str) -> None:  # noqa: ARG002 - subclasses look at it
        """An opener stands at the cursor: begin a region there."""
        self.begin_region()
        self.tagged, self.after, self.phase = False, False, "gap"

    def read_header(self) -> NeedData | None:
        """The assistant's header begins another message; behind that of another role the answer is over."""
        stands = self.starts(self.run_on)
        if stands is None:
            return NEED_DATA
        self.phase = "done"
        if stands:
            self.skip(len(self.run_on))
            self.removed = True
            self.open("")
        return None

    # -- gaps --------------------------------------------------------------------------------------------------------

    def read_gap(self) -> NeedData | None:
        """Blank text, separators and markers, until a call may begin."""
        while True:
            char = self.skip_blank(self.separators if self.after else "")
            marker = self.marker_here() if char == "<" else ""
            if marker is None or (char == "" and not self.final):
                return NEED_DATA
            if not marker:
                break
            self.ahead += len(marker)
            self.tagged = marker in self.tags or (self.tagged and marker != self.run_on)
            if marker == self.header:
                self.end_region()
                self.phase = "done"
                return None
        self.body = self.ahead
        if char:
            self.begin(char)
        elif self.after or self.tagged:
            self.drop()
        else:
            self.release()
        return None

    def marker_here(self) -> str | None:
        """The marker that stands where the region was read to, ``""`` when there is none, None when it may be one.

        The header is one only where it is not the assistant's.
        """
        undecided = False
        for marker in (*self.tags, *self.noise, *(self.closers if self.after else ()), self.run_on, self.header):
            stands = self.stands(marker) if marker else False
            if stands and not undecided:
                return marker
            undecided = undecided or stands is None
        return None if undecided else ""

    def begin(self, char: str) -> None:
        """Begin the call that starts with ``char`` behind the gap, or say that there is none."""
        if char == "{":
            self.begin_object("object")
        else:
            self.release()

    def begin_object(self, phase: str) -> None:
        """Begin the call object at ``ahead``."""
        self.begin_value()
        self.body, self.refused, self.phase = self.ahead, False, phase

    def release(self, phase: str = "text", *, tags: bool = False) -> None:
        """What was read of the region is no call but text, without the markers of its gap.

        Args:
            phase: where to go on.
            tags: keep the tags.
        """
        gap = self.peek(self.body)
        for marker in (self.run_on, *self.noise, *self.closers, *(() if tags else self.tags)):
            gap = gap.replace(marker, "") if marker else gap
        self.removed = self.removed or len(gap) < self.body
        text = gap + self.body_text
        self.skip(self.ahead)
        self.begin_region()
        self.content(text)
        self.phase = phase

    def forget_region(self) -> None:
        """As ``JsonCallMachine.forget_region``, and whether the object was refused."""
        super().forget_region()
        self.refused = False

    def drop(self) -> None:
        """What was read of the region vanishes."""
        self.end_region()
        self.phase = "text"

    # -- call objects ------------------------------------------------------------------------------------------------

    def acceptable(self, name: str) -> bool:
        """Whether a function of this name can be called here: an offered one, or any behind a tag."""
        return name in self.context.tool_names or (self.tagged and bool(name))

    def may_announce(self, name: str) -> bool:
        """Only an object that stands by itself can be nothing but a call."""
        return self.phase == "object" and self.acceptable(name) and not self.refused

    def _top_level(self, expect: str) -> None:
        super()._top_level(expect)
        if expect == "," and self.key == "name" and not self.announced and not self.acceptable(self.name):
            self.refused = True

    def read_object(self) -> NeedData | None:
        """A call object."""
        progress = self.walk_object()
        if progress == "done":
            self._object_done()
            return None
        if progress == "bad":
            return self.broken("rest")
        return self.wait()

    def _object_done(self) -> None:
        if self.announced:
            self.end_call()
            self.accept([])
            return
        call = self.body_call()
        if call is None:
            self.release()
        else:
            self.accept([call])

    def body_call(self) -> Call | None:
        """The call that the region's object is, if it is one."""
        call = None if self.refused else parse_call(self.body_text, required=True)
        return call if call is not None and self.acceptable(call.name) else None

    def accept(self, calls: list[Call]) -> None:
        """The region holds these calls: send them. Others may follow."""
        self.end_region()
        for call in calls:
            self.call(call)
        self.after, self.phase = True, "gap"

    # -- what is no call ---------------------------------------------------------------------------------------------

    def wait(self) -> NeedData | None:
        """The value is not complete yet: let go of it when it cannot become a call, or at the end."""
        if self.refused and not self.tagged:
            scan = self.scan
            self.release("passing")
            self.scan = scan
        elif self.final:
            self.cut(normal=self.ended_normally)
        else:
            return NEED_DATA
        return None

    def read_passing(self) -> NeedData | None:
        """The rest of an object that was let go of: read as JSON, so that how the output was cut changes nothing."""
        progress = self.walk_value()
        self.content(self.take(self.ahead))
        self.ahead = 0
        if progress == "bad":
            marker = self.marker_here() if self.look() == "<" else ""
            if marker is None:
                return NEED_DATA
            self._leave("text" if marker in (*self.noise, self.header, self.run_on) and marker else "rest")
        elif progress == "done" or self.final:
            self._leave("text")
        else:
            return NEED_DATA
        return None

    def _leave(self, phase: str) -> None:
        self.begin_region()
        self.phase = phase

    def broken(self, phase: str) -> NeedData | None:
        """The value cannot go on: cut, where a message ends there, else broken JSON.

        Args:
            phase: where broken JSON is followed by what.
        """
        marker = self.marker_here() if self.look() == "<" else ""
        if marker is None:
            return NEED_DATA
        if marker and marker in (*self.noise, self.header, self.run_on):
            self.cut(normal=True)
        elif self.announced:
            self.accept([])
        else:
            self.release(phase, tags=phase == "rest" and not self.calls)
        return None

    def cut(self, *, normal: bool) -> None:
        """The message ends within the value.

        Behind a tag it can only have been a call. An object without one was a call when it was cut and its name is
        that of an offered function; where the model itself ended it so, it is broken JSON.
        """
        if self.announced or self.tagged or (not normal and not self.refused and self.acceptable(self.name)):
            self.drop()
        else:
            self.release()
