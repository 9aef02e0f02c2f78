"""Streams of events that keep their state, for callers in the same process. Over HTTP the client keeps it instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from derender_server.messages_derenderer import MessagesDerenderer
from derender_server.responses_derenderer import ResponsesDerenderer
from derender_server.streams import RequestStream, StreamService
from derender_server.wire.api_derender import (
    DerenderMessagesStreamRequest,
    DerenderResponsesStreamRequest,
    MessagesRequestView,
    ResponsesRequestView,
    Transcript,
)
from derender_server.wire.decode import from_value
from derender_server.wire.derender import GenerateStreamResponse

__all__ = ["MessagesStream", "ResponsesStream"]

D = TypeVar("D", bound=StreamService)
V = TypeVar("V")


class _EventStream(RequestStream[D, V]):
    """A stream of one choice that answers events."""

    @property
    def state(self) -> dict[str, Any] | None:
        """The ``stream_state`` so far; to go on in another process."""
        return self.states.get(0)


class MessagesStream(_EventStream[MessagesDerenderer, MessagesRequestView]):
    """One Message's stream. Made by ``Derenderer.stream_messages``."""

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        request = DerenderMessagesStreamRequest.model_construct(
            generate_chunk=from_value(chunk, GenerateStreamResponse), messages_request=self._request, **self._shared
        )
        events, self._envelopes[0] = self._derenderer.advance(request, self._envelopes.get(0), self._prepared)
        return events


class ResponsesStream(_EventStream[ResponsesDerenderer, ResponsesRequestView]):
    """One Response's stream. Made by ``Derenderer.stream_responses``. It keeps the transcript, too."""

    def __init__(
        self,
        derenderer: ResponsesDerenderer,
        request: ResponsesRequestView | None,
        prompt_token_ids: Sequence[int] | None,
        prompt_tokens: int | None,
        model: str | None,
    ) -> None:
        super().__init__(derenderer, request, prompt_token_ids, prompt_tokens, model)
        self._output: list[dict[str, Any]] = []
        self._texts: list[str] = []

    @property
    def transcript(self) -> Transcript:
        """What the events said so far; to go on in another process."""
        return Transcript.model_construct(output=self._output, text="".join(self._texts))

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        request = DerenderResponsesStreamRequest.model_construct(
            generate_chunk=from_value(chunk, GenerateStreamResponse), responses_request=self._request, **self._shared
        )
        events, self._envelopes[0] = self._derenderer.advance(
            request, self._envelopes.get(0), self._prepared, transcript=lambda: self.transcript
        )
        for event in events:
            if event["type"].endswith(".delta"):
                self._texts.append(event["delta"])
            elif event["type"] == "response.output_item.done":
                self._output.append(event["item"])
                self._texts.clear()
        return events
