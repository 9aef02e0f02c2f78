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

    key_closer: ClassVar[str]
    value_opener: ClassVar[str]
    name_end: ClassVar[str] = ""
    """A marker behind the name, if there is one; a line's end, a pair or the call's closer end it, too."""
    explicit = True

    def find_head(self, *, of_call: bool) -> tuple[int, bool] | None:
        """A name ends where its line, or the first pair, or the call ends; a key where its value begins."""
        return self._find_name() if of_call else self._find_key()

    def _find_name(self) -> tuple[int, bool] | None:
        if not self.value:
            if not self.skip_blank():
                return None
            self.value = self.ahead
        ends = (*filter(None, ("\n", self.name_end)), *self.parameter_openers, *self.call_closers)
        self.ahead, marker = self.find((*ends, *self.after_call), self.ahead)
        words = len(self.peek(self.ahead - self.value, self.value).split())
        if words > 1:
            return self.ahead, False
        if marker is None:
            return None
        end = self.ahead + (len(marker) if marker == self.name_end else 0)
        return end, words == 1 and marker in ends

    def _find_key(self) -> tuple[int, bool] | None:
        others = (*self.parameter_openers, *self.parameter_closers, *self.call_closers, *self.call_openers)
        self.ahead, marker = self.find((self.key_closer, *others), self.ahead)
        if marker is None:
            return None
        if marker != self.key_closer:
            return self.ahead, False
        value = self.behind_blank(self.ahead + len(self.key_closer))
        stands = self.follows(value, (self.value_opener,), at_end=None)
        return None if stands is None else (value + len(self.value_opener) if stands else value, stands)

    def call_head(self, text: str) -> TagHead | None:
        """The name, one word."""
        name = text[self.value :].strip()
        name = name.removesuffix(self.name_end).rstrip() if self.name_end else name
        return TagHead(name) if name and not set('{}"') & set(name) else None

    def parameter_head(self, text: str) -> TagHead | None:
        """The key."""
        opener = next((opener for opener in self.parameter_openers if text.startswith(opener)), "")
        key = text[len(opener) :].partition(self.key_closer)[0].strip()
        return TagHead(key) if key else None
