"""Server-sent events, as they come from engines: the data of each, wherever the bytes are cut.

The format is that of the HTML standard, section "Server-sent events". Comments and fields other than ``data`` are
passed over.
"""

from __future__ import annotations

import re

__all__ = ["EventReader", "EventTooLongError"]

LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLongError(ValueError):
    """An event is longer than allowed."""


class EventReader:
    """Takes bytes, gives the data of complete events. One that never ends is dropped, as the standard has it.

    Args:
        max_bytes: of one event.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line: list[bytes] = []  # pieces of the line that is not complete
        self._data: list[bytes] = []  # lines of the event that is not complete
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end in ``piece``.

        Raises:
            EventTooLongError: an event is too long.
        """
        self._size += len(piece)
        if b"\n" not in piece and b"\r" not in piece and not (self._line and self._line[-1].endswith(b"\r")):
            self._line.append(piece)
            self._check()
            return []
        text = b"".join([*self._line, piece])
        # A carriage return at the end may be half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = LINE_END.split(text[: len(text) - len(held)])
        self._line = [lines.pop() + held]
        events = [event for line in lines if (event := self._take(line)) is not None]
        self._size = len(self._line[0]) + sum(map(len, self._data))
        self._check()
        return events

    def _take(self, line: bytes) -> bytes | None:
        """Read a line; gives the data of the event that it ends."""
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        return None

    def _check(self) -> None:
        if self._size > self._max_bytes:
            raise EventTooLongError(f"an event is longer than {self._max_bytes} bytes")
