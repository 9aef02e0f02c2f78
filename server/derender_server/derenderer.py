"""``Derenderer``: engine outputs in, OpenAI bodies out. Plain and synchronous; the server's routes call the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from derender_core.inputs import StreamToolCalls
from derender_core.registry import Parser
from derender_server.api_streams import MessagesStream, ResponsesStream
from derender_server.chat_derenderer import ChatDerenderer
from derender_server.chat_options import ReasoningField
from derender_server.completion_derenderer import CompletionDerenderer
from derender_server.deployment import Deployment
from derender_server.limits import Limits
from derender_server.messages_derenderer import MessagesDerenderer
from derender_server.model import ServedModel
from derender_server.parser_choice import choose_for
from derender_server.responses_derenderer import ResponsesDerenderer
from derender_server.streams import ChatStream, CompletionStream
from derender_server.text_parser import TextParser
from derender_server.wire.api_derender import (
    DerenderMessagesRequest,
    DerenderMessagesStreamRequest,
    DerenderResponsesRequest,
    DerenderResponsesStreamRequest,
    MessagesRequestView,
    ParseRequest,
    ResponsesRequestView,
)
from derender_server.wire.decode import from_value
from derender_server.wire.derender import (
    ChatRequestView,
    CompletionRequestView,
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
)

__all__ = ["Derenderer"]


class Derenderer:
    """Derenders for one model. Holds nothing of a request, so one object serves all threads.

    Requests are the models of ``derender_server.wire.derender`` or equal dicts; answers are JSON-plain dicts in the
    shape of OpenAI's bodies.

    Args:
        model: the served model.
        tool_parser: the tool parser, if any.
        reasoning_parser: the reasoning parser, if any.
        enable_auto_tool_choice: the tool parser runs with ``tool_choice: "auto"`` too.
        stream_tool_calls: ``"arguments"`` streams calls as they come, ``"whole"`` when they are complete.
        reasoning_field: the name under which clients get the reasoning.
        limits: what is accepted; the model's own when None.
        default_chat_template_kwargs: what parsers read of the template's arguments, under those of the request.
        state_secret: signs stream states; None leaves them unsigned.
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        tool_parser: Parser | None = None,
        reasoning_parser: Parser | None = None,
        enable_auto_tool_choice: bool = True,
        stream_tool_calls: StreamToolCalls = "arguments",
        reasoning_field: ReasoningField = "reasoning",
        limits: Limits | None = None,
        default_chat_template_kwargs: Mapping[str, Any] | None = None,
        state_secret: str | None = None,
    ) -> None:
        self.model = model
        deployment = Deployment(
            model=model,
            limits=limits or Limits(model.max_model_len, model.vocab_size),
            tool_parser=tool_parser,
            reasoning_parser=reasoning_parser,
            enable_auto_tool_choice=enable_auto_tool_choice,
            stream_tool_calls=stream_tool_calls,
            reasoning_field=reasoning_field,
            default_chat_template_kwargs=default_chat_template_kwargs or {},
            state_secret=state_secret,
        )
        self._chat = ChatDerenderer(deployment)
        self._completions = CompletionDerenderer(deployment)
        self._responses = ResponsesDerenderer(deployment)
        self._messages = MessagesDerenderer(deployment)
        self._texts = TextParser(deployment)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        tool_parser: str | None = None,
        reasoning_parser: str | None = None,
        revision: str | None = None,
        max_model_len: int | None = None,
        **options: Any,
    ) -> Derenderer:
        """A derenderer for the model in a directory, of a Hugging Face repo id, or ``demo``.

        Args:
            path: the model.
            tool_parser: name of the tool parser, if any; ``auto`` for the one that recognises the model.
            reasoning_parser: the same for the reasoning parser.
            revision: branch, tag or commit of the repo.
            max_model_len: overrides what the model's files say, in tokens.
            options: the other arguments of ``Derenderer``.

        Raises:
            TokenizerLoadError: the model's files are missing or cannot be read.
            ParserLoadError: a parser is not installed, cannot be loaded, or with ``auto`` not be chosen.
        """
        model = ServedModel.load(path, revision=revision, max_model_len=max_model_len)
        return cls(
            model,
            tool_parser=choose_for(model, "tool", tool_parser),
            reasoning_parser=choose_for(model, "reasoning", reasoning_parser),
            **options,
        )

    def derender_chat(self, request: DerenderChatRequest | Mapping[str, Any]) -> dict[str, Any]:
        """A chat completion, from an engine's whole response.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        return self._chat.completion(from_value(request, DerenderChatRequest))

    def derender_chat_chunk(self, request: DerenderChatStreamRequest | Mapping[str, Any]) -> dict[str, Any]:
        """``{"chunk", "stream_state"}``, from an engine's chunk and the state of the chunk before. Stateless.

        Raises:
            InputError: the request or its state is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        return self._chat.chunk(from_value(request, DerenderChatStreamRequest))

    def derender_completion(self, request: DerenderCompletionRequest | Mapping[str, Any]) -> dict[str, Any]:
        """A text completion, from an engine's whole response to each prompt.

        Raises:
            InputError: the request is wrong; names the field.
        """
        return self._completions.completion(from_value(request, DerenderCompletionRequest))

    def derender_completion_chunk(self, request: DerenderCompletionStreamRequest | Mapping[str, Any]) -> dict[str, Any]:
        """``{"chunk", "stream_state"}``, from an engine's chunk and the state of the chunk before. Stateless.

        Raises:
            InputError: the request or its state is wrong; names the field.
        """
        return self._completions.chunk(from_value(request, DerenderCompletionStreamRequest))

    def derender_responses(self, request: DerenderResponsesRequest | Mapping[str, Any]) -> dict[str, Any]:
        """An OpenAI Response, from an engine's whole response.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        return self._responses.response(from_value(request, DerenderResponsesRequest))

    def derender_responses_chunk(self, request: DerenderResponsesStreamRequest | Mapping[str, Any]) -> dict[str, Any]:
        """``{"events", "stream_state"}``, from an engine's chunk and the state of the chunk before. Stateless.

        Raises:
            InputError: the request or its state is wrong; names the field. It is ``transcript`` when the chunk closes
                an item or ends the stream and no transcript was given.
            ParserError: a parser failed; names it.
        """
        return self._responses.events(from_value(request, DerenderResponsesStreamRequest))

    def derender_messages(self, request: DerenderMessagesRequest | Mapping[str, Any]) -> dict[str, Any]:
        """An Anthropic Message, from an engine's whole response.

        Raises:
            InputError: the request is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        return self._messages.message(from_value(request, DerenderMessagesRequest))

    def derender_messages_chunk(self, request: DerenderMessagesStreamRequest | Mapping[str, Any]) -> dict[str, Any]:
        """``{"events", "stream_state"}``, from an engine's chunk and the state of the chunk before. Stateless.

        Raises:
            InputError: the request or its state is wrong; names the field.
            ParserError: a parser failed; names it.
        """
        return self._messages.events(from_value(request, DerenderMessagesStreamRequest))

    def parse(self, request: ParseRequest | Mapping[str, Any]) -> dict[str, Any]:
        """``{"message", "finish_reason"}``: the parsers on text that is already decoded.

        Raises:
            InputError: the request is wrong or the text too long; names the field.
            ParserError: a parser failed; names it.
        """
        return self._texts.message(from_value(request, ParseRequest))

    def stream(
        self,
        chat_request: ChatRequestView | Mapping[str, Any] | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        prompt_tokens: int | None = None,
        model: str | None = None,
    ) -> ChatStream:
        """A chat stream that keeps its state: ``push(chunk)`` takes an engine's chunk and gives OpenAI's.

        Args:
            chat_request: the original request; needed when a parser is configured.
            prompt_token_ids: the rendered prompt; needed when a parser is configured.
            prompt_tokens: for usage; the engine's count when None.
            model: a served name.
        """
        view = None if chat_request is None else from_value(chat_request, ChatRequestView)
        return ChatStream(self._chat, view, prompt_token_ids, prompt_tokens, model)

    def stream_completion(
        self,
        completion_request: CompletionRequestView | Mapping[str, Any] | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        prompt_tokens: int | None = None,
        model: str | None = None,
    ) -> CompletionStream:
        """A completion stream that keeps its state; as ``stream``."""
        view = None if completion_request is None else from_value(completion_request, CompletionRequestView)
        return CompletionStream(self._completions, view, prompt_token_ids, prompt_tokens, model)

    def stream_responses(
        self,
        responses_request: ResponsesRequestView | Mapping[str, Any] | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        prompt_tokens: int | None = None,
        model: str | None = None,
    ) -> ResponsesStream:
        """A Response's stream that keeps its state and transcript: ``push(chunk)`` gives events. As ``stream``."""
        view = None if responses_request is None else from_value(responses_request, ResponsesRequestView)
        return ResponsesStream(self._responses, view, prompt_token_ids, prompt_tokens, model)

    def stream_messages(
        self,
        messages_request: MessagesRequestView | Mapping[str, Any] | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        prompt_tokens: int | None = None,
        model: str | None = None,
    ) -> MessagesStream:
        """A Message's stream that keeps its state: ``push(chunk)`` gives events. As ``stream``."""
        view = None if messages_request is None else from_value(messages_request, MessagesRequestView)
        return MessagesStream(self._messages, view, prompt_token_ids, prompt_tokens, model)
