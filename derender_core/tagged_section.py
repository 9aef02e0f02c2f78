"""``TaggedSectionMachine``: JSON calls between markers, which stand in sections with markers of their own."""

from __future__ import annotations

from dataclasses import dataclass

from derender_core.machine import NeedData
from derender_core.region_machine import SectionMachine
from derender_core.tagged_call import TaggedCallMachine

__all__ = ["TaggedSectionMachine"]


@dataclass
class TaggedSectionMachine(SectionMachine, TaggedCallMachine):
    """Base of tool parsers with tagged JSON calls in sections. A subclass sets the markers of both bases."""

    phase: str = "content"

    mentions = False

    def read_content(self) -> NeedData | None:
        """Text until a section or a call begins."""
        count, marker = self.find((*self.section_openers, *self.ends, *self.noise))
        if marker not in self.section_openers:
            return super().read_content()
        self.content(self.take(count))
        self.begin_section(marker)
        return None

    def open_call(self, opener: str) -> None:  # noqa: ARG002
        """As ``SectionMachine.open_call``."""
        self.open()

    def stray(self) -> None:
        """A call that never closed is malformed, its opener included."""
        self.end_region(as_text=True)
