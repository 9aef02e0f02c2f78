"""``BareKeyCallMachine``: arguments like ``{key:value,other:[1,{x:true}]}``, with keys that need no quotes.

    arguments := "{" [member ("," member)*] "}" | "(" [member ("," member)*] ")"
    member    := KEY (":" | "=") value
    value     := quote TEXT quote | WORD | "{" [member ("," member)*] "}" | "[" [value ("," value)*] "]"

The quote is a marker of the format; ``"`` and ``'`` are quotes, too. A text between quotes is what it is: brackets,
commas and markers in it mean nothing. A word is a number, a literal of JSON or Python, or else a string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from derender_core.hookspecs import State
from derender_core.json_text import dump_json
from derender_core.machine import NEED_DATA, NeedData
from derender_core.member_call import MemberCallMachine
from derender_core.python_values import python_json
from derender_core.schema_values import parameter_schema, schema_types
from derender_core.tool_machine import BLANK

__all__ = ["BareKeyCallMachine"]

QUOTES = ('"', "'")
MAX_DEPTH = 200
LOOK_BACK = 300
"""How far to look back from a quote for the member that it belongs to."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_NEXT_MEMBER = re.compile(r",\s*[^,:=<>{}\[\]()\"]{1,100}[:=]\s*\Z")
_NEXT_ITEM = re.compile(r",\s*\Z")
_CLOSES = {"{": "}", "(": ")", "[": "]"}


@dataclass
class BareKeyCallMachine(MemberCallMachine):
    """Base of tool parsers with such arguments. They are written as JSON while they are read, so brackets nest without
    recursion.

    A subclass sets the markers and reads what stands around the arguments: it begins them with ``open_arguments``, and
    has a phase ``tail`` for what follows them and ``junk`` for a call that is malformed.

    Args:
        stack: the brackets that are open, the outermost one first.
        quote: the quote that the text being read began with.
        mark: where the key, word or text being read begins.
        json: the JSON of the member being read, as far as it was read.
        word: the key that was read in quotes.
        text: the schema's word that the member being read is a string.
    """

    stack: str = ""
    quote: str = ""
    mark: int = 0
    json: str = ""
    word: str = ""
    text: bool = False

    call_closers: ClassVar[tuple[str, ...]]
    mark_of_text: ClassVar[str]
    """The quote that the model was trained to write."""

    def forget_region(self) -> None:
        """As ``MemberCallMachine.forget_region``, and the notation."""
        super().forget_region()
        self.stack, self.quote, self.mark, self.json, self.word, self.text = "", "", 0, "", "", False

    @property
    def ends(self) -> tuple[str, ...]:
        """The markers that cannot stand in a call outside of its texts."""
        return (*self.call_closers, *self.call_openers, *self.ends_message)

    def open_arguments(self, bracket: str) -> None:
        """The region was read to behind the bracket that opens the arguments."""
        self.stack, self.phase = bracket, "key"
        self.announce()
        self._consume()

    def wait(self) -> NeedData | None:
        """The call is not complete; at the end of the output something must become of it."""
        raise NotImplementedError

    def _consume(self) -> None:
        """Between its members an announced call is consumed as it is read."""
        if self.sent:
            self.skip(self.ahead)
            self.ahead = 0
        self.mark = self.ahead

    # -- keys ----------------------------------------------------------------------------------------------------------

    def read_key(self) -> NeedData | None:
        """A key, or the end of an object."""
        char = self.skip_blank()
        quote = self._quote(char)
        if char == "" or quote is None:
            return self.wait()
        if quote:
            self._open_text(quote, "quoted_key")
        elif char == _CLOSES[self.stack[-1:] or "{"]:
            self._close_bracket()
        else:
            self.mark, self.phase = self.ahead, "bare_key"
        return None

    def read_bare_key(self) -> NeedData | None:
        """A key without quotes; it may contain blanks."""
        self.ahead, marker = self.find((":", "=", ",", "{", "}", "[", "]", *self.ends), self.ahead)
        if marker is None:
            return self.wait()
        key = self.peek(self.ahead - self.mark, self.mark).strip()
        if marker in (":", "=") and key:
            self.ahead += 1
            self._take_key(key)
        else:
            self.phase = "junk"
        return None

    def read_quoted_key(self) -> NeedData | None:
        """A key in quotes."""
        self.ahead, marker = self.find((self.quote, *self.ends), self.ahead)
        if marker is None:
            return self.wait()
        key = self.peek(self.ahead - self.mark, self.mark)
        self.ahead += len(marker)
        if marker != self.quote:
            self.phase = "junk"
            return None
        self.word, self.phase = key, "colon"
        return None

    def read_colon(self) -> NeedData | None:
        """From a key in quotes to its value."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        self.ahead += 1
        if char in (":", "="):
            self._take_key(self.word)
        else:
            self.phase = "junk"
        return None

    def _take_key(self, key: str) -> None:
        self.word, self.phase = "", "value"
        if len(self.stack) > 1:
            self.json += f"{'' if self.json.endswith('{') else ', '}{dump_json(key)}: "
            return
        self.begin_member(key)
        self.text = schema_types(parameter_schema(self.schema, key), self.schema) == {"string"}

    # -- values ------------------------------------------------------------------------------------------------------

    def json_value(self, value: str) -> str:
        """The notation has types of its own, so the value is JSON already."""
        return value

    def read_value(self) -> NeedData | None:
        """A value, or the end of a list."""
        char = self.skip_blank()
        quote = self._quote(char)
        if char == "" or quote is None:
            return self.wait()
        if quote:
            self._open_text(quote, "text")
        elif char in ("{", "["):
            self.ahead += 1
            self._write(char)
            self.stack += char
            self.phase = "junk" if len(self.stack) > MAX_DEPTH else "key" if char == "{" else "value"
        elif char == "]" and self._top == "[":
            self._close_bracket()
        else:
            self.mark, self.phase = self.ahead, "word"
        return None

    @property
    def _top(self) -> str:
        return self.stack[-1:] or "{"

    def _write(self, json: str) -> None:
        """Write a value."""
        self.json += f", {json}" if self._top == "[" and not self.json.endswith("[") else json
        self.phase = "after"

    def _close_bracket(self) -> None:
        """The bracket that closes the innermost one stands here."""
        self.ahead += 1
        closer, self.stack = _CLOSES[self._top], self.stack[:-1]
        if self.stack:
            self.json += closer
            self.phase = "after"
        else:
            self._end_member()
            self.phase = "tail"

    def _end_member(self) -> None:
        if self.json:
            self.add_member(self.json)
        self.json, self.text = "", False
        self._consume()

    def read_after(self) -> NeedData | None:
        """What follows a value."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char == _CLOSES[self._top]:
            self._close_bracket()
        elif char == ",":
            self.ahead += 1
            if len(self.stack) == 1:
                self._end_member()
            self.phase = "value" if self._top == "[" else "key"
        else:
            self.phase = "junk"
        return None

    def read_word(self) -> NeedData | None:
        """A number, a literal or a string without quotes; or one without the quote in front of it."""
        self.ahead, marker = self.find((",", "}", "]", ")", self.mark_of_text, *self.ends), self.ahead)
        if marker is None:
            return self.wait()
        if marker == ")" and not self.stack.startswith("("):
            self.ahead += 1
            return None
        word = self.peek(self.ahead - self.mark, self.mark)
        if marker == self.mark_of_text:
            follows = self._follows(self.ahead + len(marker))
            if follows is None:
                return self.wait()
            self.ahead += len(marker)
            self._write(dump_json(word))
            self.phase = self.phase if follows else "junk"
        elif marker in self.ends:
            self.phase = "junk"
        else:
            self._write(self._scalar(word.strip()))
        return None

    def _scalar(self, word: str) -> str:
        if self.text and len(self.stack) == 1:
            return dump_json(word)
        return word if _NUMBER.fullmatch(word) else _LITERALS.get(word) or dump_json(word)

    # -- texts -------------------------------------------------------------------------------------------------------

    def _quote(self, char: str) -> str | None:
        """The quote that stands here, beginning with ``char``; ``""`` when there is none, None when it may be one."""
        return char if char in QUOTES else self.which((self.mark_of_text,)) if char else ""

    def _open_text(self, quote: str, phase: str) -> None:
        self.ahead += len(quote)
        self.quote, self.mark, self.phase = quote, self.ahead, phase

    def read_text(self) -> NeedData | None:
        """A text in quotes. A quote ends it when what may follow a value follows."""
        escapes = ("\\",) if self.quote in QUOTES else ()
        self.ahead, marker = self.find((self.quote, *escapes), self.ahead)
        if marker is None:
            return self.wait()
        if marker in escapes:
            if self.waiting < self.ahead + 2 and not self.final:
                return NEED_DATA
            self.ahead = min(self.ahead + 2, self.waiting)
            return None
        follows = self._follows(self.ahead + len(marker))
        if follows is None:
            return self.wait()
        if follows:
            self._take_text(self.ahead)
            self.ahead += len(marker)
        elif not self._close_before(self.ahead):
            self.ahead += len(marker)
        return None

    def _take_text(self, end: int) -> None:
        raw = self.peek(end - self.mark, self.mark)
        spelled = python_json(f"{self.quote}{raw}{self.quote}") if self.quote in QUOTES else None
        self.ahead = end
        self._write(spelled or dump_json(raw))

    def _follows(self, offset: int) -> bool | None:
        """Whether what may follow a value stands at ``offset`` behind blank text."""
        while (char := self.peek(1, offset)) and char in BLANK:
            offset += 1
        if char == "":
            return True if self.final else None
        if char in ",}]" or (char == ")" and self.stack.startswith("(")):
            return True
        ends = self.which(self.ends, offset)
        return None if ends is None else ends != ""

    def _close_before(self, quote: int) -> bool:
        """End a text whose own quote is missing, since the one at ``quote`` begins another text."""
        start = max(self.mark, quote - LOOK_BACK)
        before = self.peek(quote - start, start)
        found = self._swallowed.search(before)
        found = found or (_NEXT_ITEM if self._top == "[" else _NEXT_MEMBER).search(before)
        if found:
            self._take_text(start + found.start())
        return found is not None

    def take_swallowing_text(self) -> bool:
        """End a text that never ended at the end of the call that it swallowed, if it did so."""
        found = self._swallowed.search(self.peek(self.waiting, self.mark))
        if found:
            self._take_text(self.mark + found.start())
        return found is not None

    @property
    def _swallowed(self) -> re.Pattern[str]:
        """The end of a call."""
        return re.compile(r"[}\])]+\s*" + re.escape(self.call_closers[0]))

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``MemberCallMachine.check``, and that brackets and quotes are such."""
        wrong = super().check(state)
        if wrong:
            return wrong
        stack, quote = state.get("stack", ""), state.get("quote", "")
        if not set(stack) <= set(_CLOSES) or len(stack) > MAX_DEPTH + 1:
            return "field 'stack' must hold brackets"
        if quote not in ("", cls.mark_of_text, *QUOTES):
            return "field 'quote' is no quote"
        if not quote and state.get("phase") in ("text", "quoted_key"):
            return "field 'quote' is missing"
        if state.get("mark", 0) > state.get("ahead", 0):
            return "field 'mark' points outside what was read"
        return None
