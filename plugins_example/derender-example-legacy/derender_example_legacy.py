"""A reasoning parser in the old style, a stateful object with ``feed()``, served as it is.

    output := ['<scratchpad>' reasoning '</scratchpad>'] answer

The object keeps its state to itself, so ``ReplayPlugin`` rebuilds it for every chunk by feeding it what came before.
That is right at any cut, but each chunk costs as much as all before it: for a new parser write a machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from derender_core import Delta, Event, ParseContext, Reasoning, ReplayPlugin, Text

OPENER, CLOSER = "<scratchpad>", "</scratchpad>"


class ScratchpadParser:
    """Reasoning in a scratchpad in front of the answer: an example of a stateful parser.

    Args:
        context: the request. ``reasoning_open`` says whether the prompt opened the scratchpad already.
    """

    def __init__(self, context: ParseContext) -> None:
        self.waiting = ""
        self.place = "inside" if context.reasoning_open else "before"

    def feed(self, delta: Delta) -> Iterator[Event]:
        """Take the next piece of the output; the events that it makes certain."""
        self.waiting += delta.text
        if self.place == "before":
            self._look_for_opener(final=delta.final)
        if self.place == "inside":
            yield from self._read_reasoning(final=delta.final)
        if self.place == "behind" and self.waiting:
            yield Text(self.waiting)
            self.waiting = ""

    def _look_for_opener(self, *, final: bool) -> None:
        if self.waiting.startswith(OPENER):
            self.waiting, self.place = self.waiting.removeprefix(OPENER), "inside"
        elif final or not OPENER.startswith(self.waiting):
            self.place = "behind"

    def _read_reasoning(self, *, final: bool) -> Iterator[Event]:
        reasoning, closer, rest = self.waiting.partition(CLOSER)
        if closer:
            self.waiting, self.place = rest, "behind"
        else:
            held = 0 if final else _beginning_of(CLOSER, reasoning)
            reasoning, self.waiting = reasoning[: len(reasoning) - held], reasoning[len(reasoning) - held :]
        if reasoning:
            yield Reasoning(reasoning)


def _beginning_of(marker: str, text: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``marker``."""
    return next((size for size in range(len(marker) - 1, 0, -1) if text.endswith(marker[:size])), 0)


plugin = ReplayPlugin(ScratchpadParser, special_tokens=(OPENER, CLOSER))
