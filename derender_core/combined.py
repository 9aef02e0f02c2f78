"""``CombinedMachine``: formats in which reasoning, answer and calls are one grammar, read by one machine in both slots.

In the tool slot the machine reads everything. In the reasoning slot it takes the reasoning out; when a tool parser
follows it passes on all the rest as it stands, markers and special tokens included, for its other half to read; when
none follows it unwraps the answer itself, and a call is text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.events import Reasoning
from derender_core.tool_machine import BLANK, ToolMachine

__all__ = ["CombinedMachine"]


@dataclass
class CombinedMachine(ToolMachine):
    """Base of machines that serve both slots. The class for the reasoning slot is a subclass with ``reasons = True``.

    Args:
        thought: blank reasoning that is none unless more follows.
        thinks: whether reasoning was sent since the last ``end_reasoning``.
    """

    thought: str = ""
    thinks: bool = False

    reasons: ClassVar[bool] = False
    """Whether this is the class for the reasoning slot."""
    reasoning_phases: ClassVar[tuple[str, ...]] = ("reasoning",)
    """Phases in which what is consumed is reasoning."""

    @property
    def passes(self) -> bool:
        """Whether a tool parser follows, which must see all but the reasoning as it stands."""
        return self.reasons and bool(self.context.tools) and bool(self.context.tool_call_openers)

    def reason(self, count: int) -> None:
        """Consume ``count`` characters of reasoning."""
        text = self.thought + self.take(count)
        if not self.thinks and not text.strip(BLANK):
            self.thought = text
            return
        if text:
            self.emit(Reasoning(text))
        self.thought, self.thinks = "", True

    def end_reasoning(self) -> None:
        """A stretch of reasoning is over; if it was blank, it was none."""
        self.thought, self.thinks = "", False

    # Whoever counts reasoning tokens is told of every character that is consumed.

    def take(self, count: int) -> str:
        """As ``Machine.take``."""
        text = super().take(count)
        if self.reasons and text:
            self.spans.append((self.phase in self.reasoning_phases, len(text)))
        return text

    def skip(self, count: int) -> None:
        """As ``Machine.skip``."""
        count = min(count, self.waiting)
        if self.reasons and count > 0:
            self.spans.append((self.phase in self.reasoning_phases, count))
        super().skip(count)
