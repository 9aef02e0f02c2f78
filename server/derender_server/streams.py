"""Streams that keep their state, for callers in the same process. Over HTTP the client keeps it instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from derender_server.chat_derenderer import ChatDerenderer
from derender_server.completion_derenderer import CompletionDerenderer
from derender_server.stream_state import Envelope, StateCodec
from derender_server.wire.decode import from_value
from derender_server.wire.derender import (
    ChatRequestView,
    CompletionRequestView,
    DerenderChatStreamRequest,
    DerenderCompletionStreamRequest,
    GenerateStreamResponse,
)

__all__ = ["ChatStream", "CompletionStream", "RequestStream"]


class StreamService(Protocol):
    """A derenderer of one API, as its streams need it."""

    codec: StateCodec

    def prepare(self, view: Any, /) -> Any:
        """What a request means for its stream."""


D = TypeVar("D", bound=StreamService)
V = TypeVar("V")


class RequestStream(Generic[D, V]):
    """What the streams of all APIs are made with: the service, the request, and what every chunk says again."""

    def __init__(
        self,
        derenderer: D,
        request: V | None,
        prompt_token_ids: Sequence[int] | None,
        prompt_tokens: int | None,
        model: str | None,
    ) -> None:
        self._derenderer: D = derenderer
        self._request: V | None = request
        self._prepared: Any = derenderer.prepare(request)
        self._shared: dict[str, Any] = {
            "stream": True,
            "stream_state": None,
            "model": model,
            "prompt_tokens": prompt_tokens,
            "prompt_token_ids": None if prompt_token_ids is None else list(prompt_token_ids),
        }
        self._envelopes: dict[int, Envelope] = {}
        self._resumed: dict[int, Mapping[str, Any]] = {}

    def resume(self, states: Mapping[int, Mapping[str, Any]]) -> None:
        """Go on where another process stopped. To be called before the first chunk.

        Args:
            states: the ``stream_state`` of each choice, by index.
        """
        self._resumed = dict(states)

    @property
    def states(self) -> dict[int, dict[str, Any]]:
        """The ``stream_state`` of each choice so far, by index; to go on in another process."""
        return {index: self._derenderer.codec.write(envelope) for index, envelope in self._envelopes.items()}

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of reasoning so far, of all choices."""
        return sum(envelope.reasoning for envelope in self._envelopes.values())

    def _before(self, index: int) -> Envelope | Mapping[str, Any] | None:
        """Where a choice stands."""
        known = self._envelopes.get(index)
        return known if known is not None else self._resumed.get(index)

    def _kept(self, chunk: dict[str, Any], envelope: Envelope, index: int) -> dict[str, Any]:
        """The chunk, once its envelope is kept. Usage counts the reasoning of all choices."""
        self._envelopes[index] = envelope
        self._resumed.pop(index, None)
        details = (chunk.get("usage") or {}).get("completion_tokens_details")
        if details is not None:
            details["reasoning_tokens"] = self.reasoning_tokens
        return chunk


class ChatStream(RequestStream[ChatDerenderer, ChatRequestView]):
    """One request's chat stream, of one choice or of several that interleave. Made by ``Derenderer.stream``."""

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> dict[str, Any]:
        """OpenAI's chunk for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        chunk = from_value(chunk, GenerateStreamResponse)
        index = _index(chunk, self._envelopes or self._resumed)
        request = DerenderChatStreamRequest.model_construct(
            generate_chunk=chunk, chat_request=self._request, **self._shared
        )
        return self._kept(*self._derenderer.advance(request, self._before(index), self._prepared), index)


class CompletionStream(RequestStream[CompletionDerenderer, CompletionRequestView]):
    """One prompt's completion stream. Made by ``Derenderer.stream_completion``."""

    def push(self, chunk: GenerateStreamResponse | Mapping[str, Any]) -> dict[str, Any]:
        """OpenAI's chunk for an engine's chunk.

        Raises:
            InputError: the chunk is wrong; names the field.
        """
        chunk = from_value(chunk, GenerateStreamResponse)
        index = _index(chunk, self._envelopes or self._resumed)
        request = DerenderCompletionStreamRequest.model_construct(
            generate_chunk=chunk, completion_request=self._request, **self._shared
        )
        return self._kept(*self._derenderer.advance(request, self._before(index), self._prepared), index)


def _index(chunk: GenerateStreamResponse, known: Mapping[int, Any]) -> int:
    """The choice that a chunk belongs to; any that there is for one that only reports usage."""
    return chunk.choices[0].index if chunk.choices else next(iter(known), 0)
