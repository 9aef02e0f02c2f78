"""A line of JSON for each request.

Lines are written together, ``SECONDS`` after the first of them: a system call for each request takes longer than all
the rest that is done for the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TextIO

import msgspec

__all__ = ["AccessLog"]

SECONDS = 0.1
encoder = msgspec.json.Encoder()


class AccessLog:
    """Writes lines to a stream.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []

    def write(self, line: dict[str, Any]) -> None:
        """Write a line soon. To be called on the event loop.

        Args:
            line: names and values, JSON-plain.
        """
        if not self._lines:
            asyncio.get_running_loop().call_later(SECONDS, self.flush)
        self._lines.append(encoder.encode(line))

    def flush(self) -> None:
        """Write now what was not written yet. Nobody's request fails because the log cannot be written."""
        lines, self._lines = self._lines, []
        if lines:
            with contextlib.suppress(OSError, ValueError):  # a broken pipe, a full disk; a closed stream
                self._stream.write(b"\n".join((*lines, b"")).decode())
                self._stream.flush()
