"""What happens where a parser implements nothing: the last implementation of each hook that has a default."""

from __future__ import annotations

from collections.abc import Sequence

from derender_core.events import Event
from derender_core.hookspecs import Step, hookimpl
from derender_core.inputs import Delta, ParseContext

__all__ = ["Defaults"]


class Defaults:
    """The default hook implementations, registered behind every parser.

    Args:
        parse_delta: the parser's ``derender_parse_delta``, all implementations in their order.
    """

    def __init__(self, parse_delta: object) -> None:
        self._parse_delta = parse_delta

    @hookimpl(trylast=True)
    def derender_extract(self, output: Delta, context: ParseContext) -> Sequence[Event] | None:
        """One path: a whole output is one delta that is also the last."""
        step: Step | None = self._parse_delta(state=None, delta=output, context=context)  # type: ignore[operator]
        return None if step is None else step.events
