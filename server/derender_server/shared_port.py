"""A port that several processes listen on, each with a socket of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, ClassVar, Self

__all__ = ["SharedPort"]


class SharedPort(socket.socket):
    """A bound socket that is bound anew in each process it is sent to.

    The kernel then deals connections out evenly. Of processes with one socket in common, the first that wakes up takes
    all connections that wait: a client that opens many at once would have all of them in one process.
    """

    possible: ClassVar[bool] = hasattr(socket, "SO_REUSEPORT")

    @classmethod
    def bind_to(cls, family: int, address: Any) -> Self:
        """A socket for this address.

        Raises:
            OSError: the address is taken by somebody who does not share it, or is not allowed.
        """
        bound = cls(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
        return bound

    def __reduce__(self) -> tuple[Callable[[int, Any], SharedPort], tuple[int, Any]]:
        return type(self).bind_to, (self.family, self.getsockname())
