"""pythonic and llama4_pythonic: a Python list of calls, ``[dial(number="0123"), ring()]``.

    answer := [text] blank list [text]                                                   pythonic: Llama 3.2 1B and 3B
            | [text] "<|python_start|>" blank list blank ["<|python_end|>"] [text]        llama4_pythonic: Llama 4

A list is looked for where the answer begins and at the start of each line, where all of its names must be offered, and
behind the marker, where any may stand. It is one unit. docs/formats/pythonic.md lists every rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from derender_core import (
    NEED_DATA,
    MachinePlugin,
    ModelFamily,
    NeedData,
    PositionalCallMachine,
    State,
    Tool,
    ToolChoice,
    call_section,
    check_python_state,
    is_python_name,
    parse_python_calls,
    python_call_tags,
    scan_python_list,
)

START, END = "<|python_start|>", "<|python_end|>"
ENDS = ("<|eom|>", "<|eot|>")
HEADER, HEADER_END = "<|header_start|>", "<|header_end|>"

LINE_START = "\n["
MAX_HEAD = 512
"""Characters within which the first name of a list and its parenthesis must come."""

_HEAD = re.compile(r"\[[ \t\r\n\f]*(?P<name>[\w.\-]*)(?P<blank>[ \t\r\n\f]*)(?P<next>\(?)")


@dataclass
class Pythonic(PositionalCallMachine):
    """Python lists of calls: Llama 3.2 1B and 3B.

    Args:
        lexed: state of the scanner that looks for the end of the list.
    """

    lexed: str = ""

    json_calls = False

    def read_text(self) -> NeedData | None:
        """Text in which a tag or a line can begin a list."""
        return self.pass_text((*self.tags, LINE_START))

    def open(self, marker: str) -> None:
        """As ``PositionalCallMachine.open``; the line break in front of a list is text."""
        if marker == LINE_START:
            self.content(self.take(1))
        super().open(marker)

    def begin(self, char: str) -> None:
        """Begin a list, or a JSON call where the format has those."""
        if char == "[":
            self.phase = "head"
        elif self.json_calls:
            super().begin(char)
        else:
            self.release()

    def read_head(self) -> NeedData | None:
        """From the bracket to the parenthesis behind the first name, looked at anew until it is there: it is short."""
        text = self.peek(MAX_HEAD, self.body)
        found = _HEAD.match(text)
        name, blank, parenthesis = found.group("name", "blank", "next") if found else ("", "", "")
        self.ahead = self.body + 1
        if parenthesis and self.callable(name):
            self.ahead, self.phase = self.body, "list"
            return None
        unread = found is not None and not parenthesis and found.end() == len(text) < MAX_HEAD
        viable = unread and (self.tagged or self._may_become(name, whole=bool(blank)))
        if viable and not self.final:
            return NEED_DATA
        if viable and self.tagged:
            self.ahead = self.waiting
            self.drop()
        else:
            self.release()
        return None

    def callable(self, name: str) -> bool:
        """Whether a list may begin with a call of this name."""
        return name in self.context.tool_names or (self.tagged and is_python_name(name))

    def _may_become(self, start: str, *, whole: bool) -> bool:
        names = self.context.tool_names
        return not start or (start in names if whole else any(name.startswith(start) for name in names))

    def read_list(self) -> NeedData | None:
        """From the bracket that opens the list to the one that closes it."""
        count, self.lexed, progress = scan_python_list(self.peek(self.waiting, self.ahead), 0, self.lexed)
        self.ahead += count
        if progress == "done":
            self._list_done()
        elif progress == "bad":
            self.release()
        elif not self.final:
            return NEED_DATA
        else:
            self.drop()
        return None

    def _list_done(self) -> None:
        calls = parse_python_calls(self.body_text, self.context.tool_names)
        if calls and all(self.callable(call.name) for call in calls):
            self.accept(calls)
            self.phase = "behind"
        else:
            self.release()

    def read_behind(self) -> NeedData | None:
        """Blank text behind a list vanishes with the closing marker; else it is text like all that follows."""
        self.phase = "text"
        return None

    def forget_region(self) -> None:
        """As ``PositionalCallMachine.forget_region``, and the scanner's state."""
        super().forget_region()
        self.lexed = ""

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``JsonCallMachine.check``, and that the scanner can go on."""
        wrong = super().check(state)
        if not wrong and not check_python_state(state.get("lexed", "")):
            return "field 'lexed' is no state of the scanner"
        return wrong


@dataclass
class Llama4Pythonic(Pythonic):
    """Python lists of calls, marked or not, or JSON calls: Llama 4."""

    tags = (START,)
    noise = (END, *ENDS)
    header = HEADER
    run_on = f"{HEADER}assistant{HEADER_END}"
    json_calls = True

    def read_behind(self) -> NeedData | None:
        """Blank text in front of the closing marker vanishes with it."""
        self.skip_blank()
        stands = self.stands(END)
        if stands is None:
            return NEED_DATA
        if stands:
            self.ahead += len(END)
            self.end_region()
        self.begin_region()
        self.phase = "text"
        return None


def structural_tag(
    tools: Sequence[Tool], tool_choice: ToolChoice, *, start: str = "", end: str = ""
) -> Mapping[str, Any] | None:
    """One list. Without a marker nothing announces it in free text, so ``"auto"`` cannot be constrained."""
    if tool_choice == "auto" and not start:
        return None
    calls = python_call_tags(tools, tool_choice)
    return call_section(calls, tool_choice, begin=f"{start}[", end=f"]{end}", separator=", ")


plugin = MachinePlugin(
    Pythonic,
    structural_tag=structural_tag,
    families=[
        ModelFamily(("Llama 3.2 (Python calls)",), template=("[func_name1(",), absent=(HEADER,)),
    ],
)
llama4 = MachinePlugin(
    Llama4Pythonic,
    special_tokens=(START, END, *ENDS, HEADER, HEADER_END),
    tool_call_openers=(START,),
    structural_tag=partial(structural_tag, start=START, end=END),
    families=[
        ModelFamily(("Llama 4 (Python calls)",), template=("[func_name1(", HEADER)),
    ],
)
