"""Streams of events that keep their state, for callers in the same process. Over HTTP the client keeps it instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derender_server.messages_derenderer import MessagesDerenderer
from derender_server.responses_derenderer import ResponsesDerenderer
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


class MessagesStream:
    """One Message's stream. Made by ``Derenderer.stream_messages``.

    Attributes:
        state: the ``stream_state`` so far; to go on in another process.
    """

    def __init__(
        self,
        derenderer: MessagesDerenderer,
        request: MessagesRequestView | None,
        prompt_token_ids: Sequence[int] | None,
        prompt_tokens: int | None,
        model: str | None,
    ) -> None:
        self._derenderer, self._request, self._model = derenderer, request, model
        self._prompt_token_ids = None if prompt_token_ids is None else list(prompt_token_ids)
        self._prompt_tokens = prompt_tokens
        self.state: dict[str, Any] | None = None

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        answer = self._derenderer.events(
            DerenderMessagesStreamRequest.model_construct(
                generate_chunk=from_value(chunk, GenerateStreamResponse),
                stream=True,
                model=self._model,
                stream_state=self.state,
                prompt_tokens=self._prompt_tokens,
                prompt_token_ids=self._prompt_token_ids,
                messages_request=self._request,
            )
        )
        self.state = answer["stream_state"]
        events: list[dict[str, Any]] = answer["events"]
        return events


class ResponsesStream:
    """One Response's stream. Made by ``Derenderer.stream_responses``. It keeps the transcript, too.

    Attributes:
        state: the ``stream_state`` so far; to go on in another process.
    """

    def __init__(
        self,
        derenderer: ResponsesDerenderer,
        request: ResponsesRequestView | None,
        prompt_token_ids: Sequence[int] | None,
        prompt_tokens: int | None,
        model: str | None,
    ) -> None:
        self._derenderer, self._request, self._model = derenderer, request, model
        self._prompt_token_ids = None if prompt_token_ids is None else list(prompt_token_ids)
        self._prompt_tokens = prompt_tokens
        self._output: list[dict[str, Any]] = []
        self._text = ""
        self.state: dict[str, Any] | None = None

    @property
    def transcript(self) -> Transcript:
        """What the events said so far; to go on in another process."""
        return Transcript.model_construct(output=self._output, text=self._text)

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        request = DerenderResponsesStreamRequest.model_construct(
            generate_chunk=from_value(chunk, GenerateStreamResponse),
            stream=True,
            model=self._model,
            stream_state=self.state,
            prompt_tokens=self._prompt_tokens,
            prompt_token_ids=self._prompt_token_ids,
            responses_request=self._request,
            transcript=self.transcript,
        )
        answer = self._derenderer.events(request)
        self.state = answer["stream_state"]
        events: list[dict[str, Any]] = answer["events"]
        for event in events:
            if event["type"].endswith(".delta"):
                self._text += event["delta"]
            elif event["type"] == "response.output_item.done":
                self._output.append(event["item"])
                self._text = ""
        return events
