"""Clients: a kept-alive connection as thin as can be, so that what is measured is the server, and two as people use."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

__all__ = ["CLIENTS", "Connection", "RequestError", "StandardClient", "UsualClient"]

JSON_BODY = {"Content-Type": "application/json"}
HEAD_END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 "
SHORT_ANSWER = re.compile(rb"HTTP/1\.1 200 (?:[^\r]*\r\n)+?content-length: (\d+)\r\n(?:[^\r]+\r\n)*\r\n", re.IGNORECASE)
"""The head of an answer that came whole, as nearly all do. Clients and server share cores, so it looks once."""


class RequestError(RuntimeError):
    """The server did not answer 200."""


class Connection:
    """One connection to one server.

    Args:
        url: ``http://host:port``, or https; a path is put in front of those of requests.
        timeout: seconds that an answer may take.
    """

    def __init__(self, url: str, timeout: float = 300.0) -> None:
        parts = urlsplit(url)
        host = parts.hostname or "127.0.0.1"
        secure = parts.scheme == "https"
        self._socket = socket.create_connection((host, parts.port or (443 if secure else 80)), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)
        self._prefix, self._host = parts.path.rstrip("/"), parts.netloc
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def get(self, path: str) -> bytes:
        """The body that a GET of ``path`` answers.

        Raises:
            RequestError: any status but 200.
        """
        self._socket.sendall(f"GET {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return self.receive()

    def post(self, path: str, body: bytes) -> bytes:
        """The body that a POST of a JSON body answers.

        Raises:
            RequestError: any status but 200.
        """
        self.send_post(path, body)
        return self.receive()

    def send_post(self, path: str, body: bytes) -> None:
        """Send a JSON body; ``receive`` gives the answer."""
        self.send(self.request(path, body))

    def request(self, path: str, body: bytes) -> bytes:
        """The bytes of a POST of a JSON body, for ``send``."""
        head = (
            f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def send(self, request: bytes) -> None:
        """Send a request; ``receive`` gives the answer."""
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """The body of the next answer.

        Raises:
            RequestError: any status but 200.
        """
        if not self._rest:
            self._rest = self._receive()
            whole = SHORT_ANSWER.match(self._rest)
            if whole and whole.end() + int(whole[1]) == len(self._rest):
                body, self._rest = self._rest[whole.end() :], b""
                return body
        head = self._until(HEAD_END)
        body = self._body(head.lower())
        if head.split(b" ", 2)[1] != b"200":
            raise RequestError(f"{head.splitlines()[0].decode()}: {body[:500].decode(errors='replace')}")
        return body

    def receive_some(self) -> int:
        """Wait for data, and count the answers that it completed, of several that are under way.

        Raises:
            RequestError: any status but 200.
        """
        data = self._rest + self._receive()
        at = count = 0
        while (head := SHORT_ANSWER.match(data, at)) and (end := head.end() + int(head[1])) <= len(data):
            at, count = end, count + 1
        self._rest = data[at:]
        if not (self._rest.startswith(OK) or OK.startswith(self._rest)):
            raise RequestError(self._rest[:500].decode(errors="replace"))
        return count

    def fileno(self) -> int:
        """The socket's, for selectors."""
        return self._socket.fileno()

    def _body(self, head: bytes) -> bytes:
        if b"transfer-encoding: chunked" in head:
            parts = []
            while size := int(self._until(b"\r\n").split(b";")[0], 16):
                parts.append(self._exactly(size))
                self._until(b"\r\n")
            self._until(b"\r\n")
            return b"".join(parts)
        _, found, length = head.partition(b"content-length:")
        return self._exactly(int(length.split(b"\r\n", 1)[0])) if found else b""

    def _until(self, end: bytes) -> bytes:
        """What comes before ``end``, which is read too."""
        while end not in self._rest:
            self._rest += self._receive()
        found, _, self._rest = self._rest.partition(end)
        return found

    def _exactly(self, count: int) -> bytes:
        parts = [self._rest]
        missing = count - len(self._rest)
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        whole = b"".join(parts)
        self._rest = whole[count:]
        return whole[:count]

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 18)
        if not data:
            raise RequestError("the server closed the connection")
        return data


class StandardClient:
    """Python's own ``http.client``.

    Args:
        url: ``http://host:port``.
    """

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=300.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def post(self, path: str, body: bytes) -> bytes:
        """As ``Connection.post``."""
        self._connection.request("POST", path, body, JSON_BODY)
        answer = self._connection.getresponse()
        return _good(answer.status, answer.read())


class UsualClient:
    """``httpx``: a client as programs have one, which costs more than a small request costs the server.

    Args:
        url: ``http://host:port``.
    """

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, headers=JSON_BODY, timeout=300.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def post(self, path: str, body: bytes) -> bytes:
        """As ``Connection.post``."""
        answer = self._client.post(path, content=body)
        return _good(answer.status_code, answer.content)


def _good(status: int, body: bytes) -> bytes:
    if status != 200:
        raise RequestError(f"{status}: {body[:500].decode(errors='replace')}")
    return body


CLIENTS: Mapping[str, Callable[[str], Connection | StandardClient | UsualClient]] = {
    "bare socket": Connection,
    "http.client": StandardClient,
    "httpx": UsualClient,
}
"""Who asks, by name, from the cheapest to the dearest. Each is measured by itself: while another one is busy with its
own work, the server sleeps, and is slow to wake up."""
