"""``JsonCallMachine``: machines whose calls are JSON objects.

With ``stream_tool_calls="arguments"`` the call is announced as soon as its name is certain and its arguments begin;
from then on its region is consumed as it is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Literal

from derender_core.hookspecs import State
from derender_core.json_scan import BAD, DONE, START, check_scan_state, depth, scan_json
from derender_core.json_text import ARGUMENT_KEYS, Call, normalize_arguments
from derender_core.region_machine import RegionMachine
from derender_core.tool_machine import BLANK

__all__ = ["JsonCallMachine"]

_BEFORE_VALUE = "{|v"

Progress = Literal["more", "done", "bad"]


@dataclass
class JsonCallMachine(RegionMachine):
    """Base of tool parsers whose calls are ``{"name", "arguments"}`` objects, or bare arguments behind a name.

    Args:
        body: where the JSON of the region begins.
        scan: the scanner's state.
        key: the member of the call object that is being read.
        mark: where the name, key or value that is being read begins.
        sending: what goes out: ``""`` nothing, ``"arguments"`` the value being read, ``"sent"`` all of it is out.
    """

    body: int = 0
    scan: str = START
    key: str = ""
    mark: int = 0
    sending: str = ""

    streamed_keys: ClassVar[tuple[str, ...]] = ARGUMENT_KEYS[:1]
    """Keys whose value may go out before the object is complete: those that no other key can overrule."""
    name_key: ClassVar[str] = "name"
    """The key of the name."""

    def forget_region(self) -> None:
        """Reset what was read of the region."""
        super().forget_region()
        self.scan, self.key, self.mark, self.sending, self.body = START, "", 0, "", 0

    @property
    def announced(self) -> bool:
        """Whether the call that is being read was announced already, so that it cannot be taken back."""
        return self.sending != ""

    # -- reading objects ---------------------------------------------------------------------------------------------

    def may_announce(self, name: str) -> bool:
        """Whether an object with this name can only be a call. Formats without an opener ask for an offered name."""
        return bool(name)

    def begin_value(self) -> None:
        """Begin a JSON value where the region was read to."""
        self.scan, self.key, self.mark = START, "", self.ahead

    @property
    def body_text(self) -> str:
        """What was read of the region from its JSON on."""
        return self.peek(self.ahead - self.body, self.body)

    def walk_value(self) -> Progress:
        """Read on in a JSON value without looking into it."""
        return self._scan(stop=0)

    def walk_arguments(self) -> Progress:
        """Read on in a JSON value that is the arguments of ``self.name``."""
        if self.streams and not self.sending and self.scan == START and self.look() == "{":
            self.announce()
        progress = self._scan(stop=0)
        if progress == "done" and self.sending == "arguments":
            self.sending = "sent"
        return progress

    def end_arguments(self) -> bool:
        """The arguments of ``self.name`` were read: send the call, or what is missing of the one that was announced.

        Returns:
            False, and nothing is sent, when they are no object or there is no name.
        """
        if self.announced:
            self.end_call()
            return True
        arguments = normalize_arguments(self.peek(self.ahead - self.mark, self.mark))
        if arguments is None or not self.name:
            return False
        self.call(Call(self.name, arguments))
        return True

    def walk_key(self) -> Progress:
        """Read on in an object up to the value of its first member, whose key is then ``key``."""
        while self.scan != _BEFORE_VALUE:
            if self._scan(stop=1) != "more":
                return "bad"
            if depth(self.scan) == 1:
                self._top_level(self.scan[2:])
            if self._exhausted and self.scan != _BEFORE_VALUE:
                return "more"
        return "done"

    def walk_object(self) -> Progress:
        """Read on in a call object, and announce it when that may be."""
        while True:
            if not self.sending and self.scan == _BEFORE_VALUE:
                self._value_begins()
            progress = self._scan(stop=1)
            if progress != "more":
                return progress
            if self.sending != "sent" and self.scan[1] == "|":  # one container is open; this runs for every token
                self._top_level(self.scan[2:])
            if self._exhausted:
                return "more"

    @property
    def streams(self) -> bool:
        """Whether calls are sent as they come."""
        return self.context.stream_tool_calls == "arguments"

    @property
    def _exhausted(self) -> bool:
        return self._at + self.ahead >= len(self.buffer)

    def _scan(self, stop: int) -> Progress:
        start = self._at + self.ahead
        out: list[str] | None = [] if self.sending == "arguments" else None
        end = self.next_token(self.ahead) if self.specials else -1
        if end < 0:
            at, scan = scan_json(self.buffer, start, self.scan, stop, out)
        else:
            read, scan = scan_json(self.buffer[start:end], 0, self.scan, stop, out)
            at = start + read
            if at == end and scan != DONE:
                scan = BAD  # a control token cannot stand inside JSON
        self.scan = scan
        if out:
            self.arguments("".join(out))
        if self.sending:
            self._at, self.ahead = at, 0
        else:
            self.ahead = at - self._at
        return "done" if scan == DONE else "bad" if scan == BAD else "more"

    def _top_level(self, expect: str) -> None:
        """Take note of a boundary between members of the call object."""
        if expect in "kK":  # a member begins, or a key ended in front of "}"
            self.mark = self.ahead
        elif expect == ":":
            self.key = self._string_at_mark()
        elif expect == ",":
            if self.sending == "arguments":
                self.sending = "sent"
            elif self.key == self.name_key and not self.sending:
                self.name = self._string_at_mark()

    def _value_begins(self) -> None:
        char = self.skip_blank()
        self.mark = self.ahead
        if (
            char == "{"
            and not self.sending
            and self.streams
            and self.key in self.streamed_keys
            and self.name
            and self.may_announce(self.name)
        ):
            self.announce()

    def announce(self) -> None:
        """Begin to send the call: what was read of the region is consumed, and cannot come back as text."""
        self.skip(self.ahead)
        self.ahead, self.body, self.mark, self.sending = 0, 0, 0, "arguments"
        self.start_call(self.name)

    def _string_at_mark(self) -> str:
        """The string that was just read, ``""`` when it is none."""
        raw = self.peek(self.ahead - self.mark, self.mark).strip(BLANK)
        if not raw.startswith('"'):
            return ""
        if "\\" not in raw:
            return raw[1:-1]
        try:
            value: str = json.loads(raw, strict=False)
        except ValueError:  # only a state from outside can get here; what cannot be read is no name
            return ""
        return "" if any("\ud800" <= char <= "\udfff" for char in value) else value

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``RegionMachine.check``, and that positions lie within what was read and the scanner's state is one."""
        wrong = super().check(state)
        if wrong:
            return wrong
        if max(state.get("mark", 0), state.get("body", 0)) > state.get("ahead", 0):
            return "field 'mark' or 'body' points outside what was read"
        if not check_scan_state(state.get("scan", START)):
            return "field 'scan' is no state of the scanner"
        if state.get("sending", "") not in ("", "arguments", "sent"):
            return "field 'sending' has no such value"
        if state.get("sending") and not state.get("calls"):
            return "field 'sending' needs a call"
        return None
