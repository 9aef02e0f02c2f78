"""``PairTagMachine``: a function's name, then a tagged key and a tagged value for each argument.

call := call-opener NAME [name-end] blank (pair blank)* call-closer
pair := key-opener KEY key-closer blank value-opener VALUE value-closer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.parameter_call import ParameterCallMachine, TagHead

__all__ = ["PairTagMachine"]


@dataclass
class PairTagMachine(ParameterCallMachine):
    """Base of tool parsers with tags around keys and around values. ``parameter_openers`` are those of keys."""

    key_closers: ClassVar[tuple[str, ...]]
    value_openers: ClassVar[tuple[str, ...]]
    name_ends: ClassVar[tuple[str, ...]] = ()
    """The marker behind the name, if there is one; a line's end, a pair or the call's closer end it, too."""
    explicit = True

    def find_head(self, *, of_call: bool) -> tuple[int, bool] | None:
        """A name ends where its line, or the first pair, or the call ends; a key where its value begins."""
        return self._find_name() if of_call else self._find_key()

    def _find_name(self) -> tuple[int, bool] | None:
        if not self.value:
            if not self.skip_blank():
                return None
            self.value = self.ahead
        ends = ("\n", *self.name_ends, *self.parameter_openers, *self.call_closers)
        self.ahead, marker = self.find((*ends, *self.after_call), self.ahead)
        words = len(self.peek(self.ahead - self.value, self.value).split())
        if words > 1:
            return self.ahead, False
        if marker is None:
            return None
        end = self.ahead + (len(marker) if marker in self.name_ends else 0)
        return end, words == 1 and marker in ends

    def _find_key(self) -> tuple[int, bool] | None:
        others = (*self.parameter_openers, *self.parameter_closers, *self.call_closers, *self.call_openers)
        self.ahead, marker = self.find((*self.key_closers, *others), self.ahead)
        if marker is None:
            return None
        if marker not in self.key_closers:
            return self.ahead, False
        value = self.behind_blank(self.ahead + len(marker))
        opener = None if value == self.waiting else self.which(self.value_openers, value)
        if opener is None or (not opener and self.is_cut(self.value_openers, value)):
            return None
        return value + len(opener), opener != ""

    def call_head(self, text: str) -> TagHead | None:
        """The name, one word."""
        name = text[self.value :].strip()
        end = next((end for end in self.name_ends if name.endswith(end)), "")
        name = name.removesuffix(end).rstrip()
        return TagHead(name) if name and not set('{}"') & set(name) else None

    def parameter_head(self, text: str) -> TagHead | None:
        """The key."""
        opener = next((opener for opener in self.parameter_openers if text.startswith(opener)), "")
        key = text[len(opener) :]
        for closer in self.key_closers:
            key = key.partition(closer)[0]
        key = key.strip()
        return TagHead(key) if key else None
