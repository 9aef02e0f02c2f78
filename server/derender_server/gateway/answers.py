"""The events of a streamed answer, in the form of each API: how they are framed, how it ends and how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from derender_server.api_streams import ResponsesStream
from derender_server.errors import error_body
from derender_server.gateway.event_sink import data_event, named_event
from derender_server.gateway.messages_errors import messages_error_body
from derender_server.streams import ChatStream, CompletionStream
from derender_server.wire.derender import EngineUsage, GenerateStreamResponse

__all__ = ["ChunkEvents", "Failure", "MessageEvents", "ResponseEvents", "StreamEvents"]

COMMENT = b": keep-alive\n\n"
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
DONE = b"data: [DONE]\n\n"

Parts = Sequence[dict[str, Any]]
Failure = tuple[int, str, str | None]
"""Status, message and ``param`` of an error."""


class StreamEvents(Protocol):
    """Makes the bytes that a client gets.

    Attributes:
        keep_alive: what is sent after some silence.
    """

    keep_alive: bytes

    def of(self, parts: Parts, at: int) -> bytes:
        """The events for what derendering gave.

        Args:
            parts: OpenAI chunks, or events.
            at: number of the engine request.
        """

    def end(self, usage: EngineUsage) -> bytes:
        """What comes behind the last of them."""

    def failed(self, failure: Failure) -> bytes:
        """What comes instead, when the answer cannot be finished."""


class ChunkEvents:
    """Chunks of chat or text completions.

    Args:
        streams: one for each engine request.
        request_id: id of the answer.
        choices: of each engine request; the choices of all are numbered through.
        wants_usage: the client asked for a last chunk with the usage.
    """

    keep_alive = COMMENT

    def __init__(
        self, streams: Sequence[ChatStream | CompletionStream], request_id: str, choices: int, *, wants_usage: bool
    ) -> None:
        self._streams, self._request_id, self._choices = streams, request_id, choices
        self._wants_usage = wants_usage
        self._created: int | None = None

    def of(self, parts: Parts, at: int) -> bytes:
        """The chunks, which say the same id and time whichever engine request they come from."""
        for chunk in parts:
            if self._created is None:
                self._created = chunk["created"]
            chunk["id"], chunk["created"] = self._request_id, self._created
            for choice in chunk["choices"]:
                choice["index"] += at * self._choices
        return b"".join(map(data_event, parts))

    def end(self, usage: EngineUsage) -> bytes:
        """The usage if it was asked for, and ``[DONE]``."""
        if not self._wants_usage:
            return DONE
        last = GenerateStreamResponse.model_construct(
            request_id=self._request_id, choices=[], usage=usage, prompt_token_ids=None, output_mode=None
        )
        chunk = self._streams[0].push(last)
        return self.of([chunk], 0) + DONE

    def failed(self, failure: Failure) -> bytes:
        """An error in place of a chunk, as OpenAI's clients expect it, and ``[DONE]``."""
        return data_event(error_body(*failure)) + DONE


class MessageEvents:
    """Events of a Message. Keeping alive has an event of its own."""

    keep_alive = PING

    def of(self, parts: Parts, at: int) -> bytes:  # noqa: ARG002 - there is one engine request
        """The events, named by their types."""
        return b"".join(map(named_event, parts))

    def end(self, usage: EngineUsage) -> bytes:  # noqa: ARG002 - the last event had the usage
        """Nothing: ``message_stop`` was the end."""
        return b""

    def failed(self, failure: Failure) -> bytes:
        """An ``error`` event."""
        return named_event(messages_error_body(*failure))


class ResponseEvents:
    """Events of a Response.

    Args:
        stream: knows what the events said so far.
    """

    keep_alive = COMMENT

    def __init__(self, stream: ResponsesStream) -> None:
        self._stream = stream
        self._response: dict[str, Any] | None = None
        self._number = 0

    def of(self, parts: Parts, at: int) -> bytes:  # noqa: ARG002 - there is one engine request
        """The events, named by their types."""
        if parts and self._response is None:
            self._response = parts[0]["response"]
        if parts:
            self._number = parts[-1]["sequence_number"] + 1
        return b"".join(map(named_event, parts))

    def end(self, usage: EngineUsage) -> bytes:  # noqa: ARG002 - the last event had the usage
        """Nothing: ``response.completed`` or ``response.incomplete`` was the end."""
        return b""

    def failed(self, failure: Failure) -> bytes:
        """An ``error`` event, and once the Response was announced ``response.failed``: clients wait for either."""
        status, message, param = failure
        code = "rate_limit_exceeded" if status == 429 else "server_error"
        error = {"type": "error", "sequence_number": self._number, "code": code, "message": message, "param": param}
        if self._response is None:
            return named_event(error)
        response = {
            **self._response,
            "status": "failed",
            "error": {"code": code, "message": message},
            "output": self._stream.transcript.output,
        }
        event = {"type": "response.failed", "sequence_number": self._number + 1, "response": response}
        return named_event(error) + named_event(event)
