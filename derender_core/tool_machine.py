"""``ToolMachine``: what every tool parser needs besides its grammar: text around calls, and the calls' indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.events import Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from derender_core.json_text import Call
from derender_core.machine import NEED_DATA, Machine, NeedData

__all__ = ["ToolMachine"]

BLANK = " \t\r\n"


@dataclass
class ToolMachine(Machine):
    """Base of tool parsers.

    Text around calls is content, verbatim and in order. Where the model's chat template puts white space around calls
    (``trim = True``), the outside of the content is trimmed once a call region was removed from it; blank text that may
    turn out to be outside is held back until more text, or the end, decides. Text that was already sent cannot be
    trimmed, so white space in front of an answer stays when the answer's first words came before its first call.

    Args:
        calls: number of calls begun.
        held: blank text that is not sent yet.
        spoke: whether some text was sent.
        removed: whether a call region was removed from the text.
    """

    calls: int = 0
    held: str = ""
    spoke: bool = False
    removed: bool = False

    trim: ClassVar[bool] = True

    def content(self, text: str) -> None:
        """Pass text on as content."""
        if not text:
            return
        if self.spoke and not self.trim:
            self.emit(Text(text))
            return
        if self.trim and self.removed and not self.spoke:  # outside for sure: a call was removed before any word
            self.held, text = "", text.lstrip(BLANK)
        body = text.rstrip(BLANK) if self.trim else text
        if not body.strip(BLANK):
            self.held += text
            return
        self.emit(Text(self.held + body))
        self.held = text[len(body) :]
        self.spoke = True

    def end_content(self) -> None:
        """Release or drop the blank text that is still held. Call once, when nothing more will come."""
        if self.held and (not self.removed or (self.spoke and not self.trim)):
            self.emit(Text(self.held))
        self.held = ""

    def content_until(self, markers: tuple[str, ...]) -> str | None:
        """Pass text on as content until the first of ``markers``, which stays where it is.

        Returns:
            The marker; None when there is none yet. At the end of the output the content is then ended.
        """
        count, marker = self.find(markers)
        self.content(self.take(count))
        if marker is None and self.final:
            self.end_content()
        return marker

    def read_done(self) -> NeedData:
        """The message is over: what follows belongs to another turn."""
        self.skip(self.waiting)
        if self.final:
            self.end_content()
        return NEED_DATA

    def start_call(self, name: str, call_id: str | None = None) -> None:
        """Announce the next call."""
        self.emit(ToolCallStart(self.calls, name, call_id))
        self.calls += 1
        self.removed = True

    def arguments(self, fragment: str) -> None:
        """Send a piece of the last call's arguments."""
        if fragment:
            self.emit(ToolCallArguments(self.calls - 1, fragment))

    def end_call(self) -> None:
        """Say that the last call is complete."""
        self.emit(ToolCallEnd(self.calls - 1))

    def call(self, call: Call, call_id: str | None = None) -> None:
        """Send a complete call."""
        self.start_call(call.name, call_id)
        self.arguments(call.arguments)
        self.end_call()

    @property
    def ended_normally(self) -> bool:
        """Whether the output ended because the model was done, not because it was cut."""
        return self.finish_reason in (None, "stop", "tool_calls")
