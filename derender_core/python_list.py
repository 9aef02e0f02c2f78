"""``PythonListMachine``: as ``ListCallMachine``, for models that also write their calls in Python.

    calls := "[" call ("," call)* [","] "]"        a list: one unit, all of it are calls, or it is text
           | (call | object) (blank (call | object))*     calls by themselves, one a line
    call  := name "(" [key "=" value ("," key "=" value)*] ")"

A call of a list counts when the list is complete, one by itself when its parenthesis is closed. Without an opener only
calls of offered functions count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from derender_core.hookspecs import State
from derender_core.json_call import Progress
from derender_core.json_text import Call
from derender_core.list_call import ListCallMachine
from derender_core.machine import NEED_DATA, NeedData
from derender_core.python_calls import check_python_state, is_python_name, parse_python_calls, scan_python_list

__all__ = ["PythonListMachine"]

MAX_HEAD = 512
"""Characters within which a name and its parenthesis must come."""

_HEAD = re.compile(r"\[?[ \t\r\n\f]*(?P<name>[\w.\-]*)(?P<blank>[ \t\r\n\f]*)(?P<next>\(?)")


@dataclass
class PythonListMachine(ListCallMachine):
    """Base of tool parsers with Python calls, in a list or one a line, between markers.

    Args:
        lexed: state of the scanner that looks for the end of a list or a call.
    """

    lexed: str = ""

    lines: ClassVar[bool] = True
    """Whether calls may stand by themselves, without a list around them."""
    any_name: ClassVar[bool] = True
    """Whether behind an opener a Python call may have a name that is not offered."""

    def read_lead(self) -> NeedData | None:
        """Where the answer begins a call may stand without its opener."""
        char = self.skip_blank() if self.leads else ""
        if _begins_name(char):
            self.phase = "head"
            return None
        return super().read_lead()

    def read_head(self) -> NeedData | None:
        """From the opener to the list, or to the first call."""
        if self.skip_blank() != "[":
            return super().read_head()
        self.body, self.phase = self.ahead, "bracket"
        self.ahead += 1
        return None

    def read_bracket(self) -> NeedData | None:
        """What follows the bracket tells a list of JSON objects from one of Python calls."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char in "{]":
            self.listed, self.phase = True, "element"
        elif _begins_name(char):
            self.ahead, self.phase = self.body, "name"
        else:
            self.reject()
        return None

    def other_form(self, char: str) -> None:
        """A call by itself."""
        if self.lines and _begins_name(char):
            self.body, self.phase = self.ahead, "name"
        else:
            super().other_form(char)

    def read_name(self) -> NeedData | None:
        """From the bracket, or the name, to the parenthesis; looked at anew until that is there: it is short."""
        start = self._at + self.body
        found = _HEAD.match(self.buffer, start, start + MAX_HEAD)
        name, blank, parenthesis = found.group("name", "blank", "next") if found else ("", "", "")
        end = (found.end() if found else start) - self._at
        if parenthesis and self.callable(name) and (self.marked or not blank):  # prose may go on in parentheses
            self.name, self.lexed = name, ""
            if self.look() == "[":
                self.phase = "python"
            else:
                self.ahead, self.phase = end - 1, "call"
            return None
        unread = not parenthesis and end == self.waiting < self.body + MAX_HEAD
        if not (unread and self._may_become(name, whole=bool(blank))):
            self._no_call()
            return None
        if self.final:
            self.ahead = end
        return self.wait()

    def callable(self, name: str) -> bool:
        """Whether a call may have this name."""
        return name in self.context.tool_names or (self.marked and self.any_name and is_python_name(name))

    def _may_become(self, start: str, *, whole: bool) -> bool:
        if self.marked and self.any_name:
            return True
        names = self.context.tool_names
        return start in names if whole else any(name.startswith(start) for name in names)

    def _no_call(self) -> None:
        """No call stands where one might: behind calls by themselves it is text, as it stands."""
        if self.good and not self.listed:
            self.ahead = 0
            self._end_list()
        else:
            self.reject()

    # -- a list ------------------------------------------------------------------------------------------------------

    def read_python(self) -> NeedData | None:
        """A list of Python calls."""
        progress = self._walk_python()
        if progress == "more":
            return self.wait()
        calls = parse_python_calls(self._body_text, self.context.tool_names) if progress == "done" else None
        if not calls or not all(self.callable(call.name) for call in calls):
            self.reject()
            return None
        self.skip(self.ahead)
        self.ahead = 0
        self.forget_region()
        for call in calls:
            self.call(call)
        self.phase = "tail"
        return None

    @property
    def in_string(self) -> bool:
        """Whether what was read of the region ends in a string."""
        return super().in_string or self.lexed.partition("|")[2] not in ("", "!")

    def _walk_python(self) -> Progress:
        at, self.lexed, progress = scan_python_list(self.buffer, self._at + self.ahead, self.lexed, stop="<")
        self.ahead = at - self._at
        return progress

    @property
    def _body_text(self) -> str:
        return self.peek(self.ahead - self.body, self.body)

    # -- calls by themselves -----------------------------------------------------------------------------------------

    def read_call(self) -> NeedData | None:
        """A call by itself, from its parenthesis on."""
        progress = self._walk_python()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            self.reject()
            return None
        self.mark, self.phase = self.ahead, "next"
        return None

    def object_call(self, text: str) -> Call | None:
        """The call that an object, or a Python call by itself, is."""
        if text.startswith("{"):
            return super().object_call(text)
        calls = parse_python_calls(f"[{text}]", self.context.tool_names)
        return calls[0] if calls and len(calls) == 1 and self.callable(calls[0].name) else None

    def read_tail(self) -> NeedData | None:
        """Another call by itself, or what stands behind the list."""
        if not self.lines or self.listed:
            return super().read_tail()
        char = self.skip_blank("," if self.marked and self.closers else "")
        if char == "" and not self.final:
            return NEED_DATA
        if _begins_name(char) and (self.marked or self.good):
            self.body, self.phase = self.ahead, "name"
        else:
            return super().read_tail()
        return None

    # -- state -------------------------------------------------------------------------------------------------------

    def forget_region(self) -> None:
        """As ``ListCallMachine.forget_region``, and the scanner's state."""
        super().forget_region()
        self.lexed = ""

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``ListCallMachine.check``, and that the scanner can go on."""
        wrong = super().check(state)
        if not wrong and not check_python_state(state.get("lexed", "")):
            return "field 'lexed' is no state of the scanner"
        return wrong


def _begins_name(char: str) -> bool:
    return char == "_" or char.isalpha()
