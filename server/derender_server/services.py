"""What the routes call: JSON bodies in, JSON bodies out, and no web framework in sight."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from derender_core.errors import InputError
from derender_core.pipeline import Pipeline
from derender_server.chat_derenderer import ChatDerenderer
from derender_server.completion_derenderer import CompletionDerenderer
from derender_server.deployment import Deployment
from derender_server.limits import Limits
from derender_server.messages_derenderer import MessagesDerenderer
from derender_server.meter import Meter
from derender_server.metrics import Metrics
from derender_server.model import ServedModel
from derender_server.parser_choice import choose_for, load_named
from derender_server.renderer import Renderer
from derender_server.responses_derenderer import ResponsesDerenderer
from derender_server.settings import Settings, shared_metrics
from derender_server.text_parser import TextParser
from derender_server.wire.api_derender import (
    DerenderMessagesRequest,
    DerenderMessagesStreamRequest,
    DerenderResponsesRequest,
    DerenderResponsesStreamRequest,
    ParseRequest,
)
from derender_server.wire.decode import LARGE_BODY, decode_body, decode_either, decode_value
from derender_server.wire.derender import (
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
)

__all__ = ["Services"]

encoder = msgspec.json.Encoder()

PIECE = 512
"""Elements of a list that are encoded at once."""


class Services:
    """The services of one process.

    Args:
        settings: what the server was told.

    Attributes:
        parsers: the parsers that run.
        metrics: what was done.
        meter: counts in them what answers hold.
        renderer: requests to token ids.
        chat, completions, responses, messages: outputs to the answers of each API.

    Raises:
        TokenizerLoadError: the model cannot be loaded.
        ParserLoadError: a parser cannot be loaded, or with ``auto`` not be chosen.
        TemplateError: the chat template is not valid.
    """

    def __init__(self, settings: Settings) -> None:
        settings = settings.with_demo_defaults()
        self.settings = settings
        self.version = version("derender")
        self.started = int(time.time())
        # Before the model, which may have to be fetched: a wrong name is told at once.
        load_named("tool", settings.tool_call_parser)
        load_named("reasoning", settings.reasoning_parser)
        self.model = ServedModel.load(
            settings.model,
            revision=settings.revision,
            names=settings.served_model_name,
            max_model_len=settings.max_model_len,
        )
        template = settings.chat_template
        tool_parser = choose_for(self.model, "tool", settings.tool_call_parser, template)
        reasoning_parser = choose_for(self.model, "reasoning", settings.reasoning_parser, template)
        limits = Limits(self.model.max_model_len, self.model.vocab_size, settings.max_choices, settings.max_logprobs)
        deployment = Deployment(
            model=self.model,
            limits=limits,
            tool_parser=tool_parser,
            reasoning_parser=reasoning_parser,
            enable_auto_tool_choice=settings.enable_auto_tool_choice,
            stream_tool_calls=settings.stream_tool_calls,
            reasoning_field=settings.reasoning_field,
            default_chat_template_kwargs=settings.default_chat_template_kwargs,
            state_secret=settings.state_secret,
        )
        self.parsers = tuple(parser for parser in (tool_parser, reasoning_parser) if parser is not None)
        self.metrics = Metrics(self.parsers, shared_metrics())
        self._names = (
            None if tool_parser is None else tool_parser.name,
            None if reasoning_parser is None else reasoning_parser.name,
        )
        self.meter = Meter(self.metrics, *self._names)
        self.chat = ChatDerenderer(deployment)
        self.completions = CompletionDerenderer(deployment)
        self.responses = ResponsesDerenderer(deployment)
        self.messages = MessagesDerenderer(deployment)
        self._texts = TextParser(deployment)
        self.renderer = Renderer(
            self.model,
            pipeline=Pipeline(tool_parser, reasoning_parser),
            chat_template=template,
            content_format=settings.chat_template_content_format,
            default_template_kwargs=settings.default_chat_template_kwargs,
            trust_request_templates=settings.trust_request_chat_template,
            limits=limits,
            enable_auto_tool_choice=settings.enable_auto_tool_choice,
        )

    def summary(self) -> str:
        """One line for the log: what is served, and with what."""
        settings, model = self.settings, self.model
        tool_parser, reasoning_parser = self._names
        auto = ", auto tool choice" if settings.enable_auto_tool_choice else ""
        return (
            f"derender {self.version} serves {model.name} (vocabulary {model.vocab_size}, "
            f"tool parser {tool_parser or 'none'}{auto}, "
            f"reasoning parser {reasoning_parser or 'none'}, max_model_len {model.max_model_len})"
        )

    def derender_chat(self, body: bytes) -> bytes:
        """``/v1/chat/completions/derender``."""
        request = decode_either(body, DerenderChatRequest, DerenderChatStreamRequest)
        if request.stream:  # a Literal, so it tells the shapes apart
            answer = self.chat.chunk(request)
            self.meter.chunk("chat", request, answer)
        else:
            answer = self.chat.completion(request, logprobs_as_json=len(body) >= LARGE_BODY)
            self.meter.whole("chat", answer)
        return _encode(answer, len(body))

    def derender_completion(self, body: bytes) -> bytes:
        """``/v1/completions/derender``."""
        request = decode_either(body, DerenderCompletionRequest, DerenderCompletionStreamRequest)
        if request.stream:
            answer = self.completions.chunk(request)
            self.meter.chunk("completions", request, answer)
        else:
            answer = self.completions.completion(request)
            self.meter.whole("completions", answer)
        return _encode(answer, len(body))

    def derender_responses(self, body: bytes) -> bytes:
        """``/v1/responses/derender``."""
        request = decode_either(body, DerenderResponsesRequest, DerenderResponsesStreamRequest)
        if request.stream:
            answer = self.responses.events(request)
            self.meter.chunk("responses", request, answer)
        else:
            answer = self.responses.response(request)
            self.meter.whole("responses", answer)
        return _encode(answer, len(body))

    def derender_messages(self, body: bytes) -> bytes:
        """``/v1/messages/derender``."""
        request = decode_either(body, DerenderMessagesRequest, DerenderMessagesStreamRequest)
        if request.stream:
            answer = self.messages.events(request)
            self.meter.chunk("messages", request, answer)
        else:
            answer = self.messages.message(request)
            self.meter.whole("messages", answer)
        return _encode(answer, len(body))

    def parse(self, body: bytes) -> bytes:
        """``/parse``."""
        answer = self._texts.message(decode_body(body, ParseRequest))
        self.meter.parsed(answer)
        return _encode(answer, len(body))

    def render_chat(self, body: bytes, request_id: str | None = None) -> bytes:
        """``/v1/chat/completions/render``."""
        rendered = self.renderer.render_chat(decode_value(body), request_id=request_id)
        self.meter.rendered("chat", [rendered.token_ids])
        return rendered.model_dump_json().encode()

    def render_completion(self, body: bytes, request_id: str | None = None) -> bytes:
        """``/v1/completions/render``."""
        rendered = self.renderer.render_completion(decode_value(body), request_id=request_id)
        self.meter.rendered("completions", [one.token_ids for one in rendered])
        return b"[" + b",".join(one.model_dump_json().encode() for one in rendered) + b"]"

    def render_responses(self, body: bytes, request_id: str | None = None) -> bytes:
        """``/v1/responses/render``."""
        rendered = self.renderer.render_responses(decode_value(body), request_id=request_id)
        self.meter.rendered("responses", [rendered.token_ids])
        return rendered.model_dump_json().encode()

    def render_messages(self, body: bytes, request_id: str | None = None) -> bytes:
        """``/v1/messages/render``."""
        rendered = self.renderer.render_messages(decode_value(body), request_id=request_id)
        self.meter.rendered("messages", [rendered.token_ids])
        return rendered.model_dump_json().encode()

    def tokenize(self, body: bytes) -> bytes:
        """``/tokenize``."""
        return self.renderer.tokenize(decode_value(body)).model_dump_json().encode()

    def detokenize(self, body: bytes) -> bytes:
        """``/detokenize``."""
        return self.renderer.detokenize(decode_value(body)).model_dump_json().encode()

    def models(self) -> Mapping[str, Any]:
        """``/v1/models``: a card for each name."""
        model = self.model
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self.started,
                "owned_by": "derender",
                "root": model.root,
                "parent": None,
                "max_model_len": model.max_model_len,
            }
            for name in model.names
        ]
        return {"object": "list", "data": cards}


def _encode(body: Mapping[str, Any], size: int) -> bytes:
    """The JSON of an answer to a request of so many bytes."""
    try:
        return encoder.encode(body) if size < LARGE_BODY else b"".join(_pieces(body))
    except RecursionError as error:  # what is passed through may have been just flat enough to be read
        raise InputError("the body is nested too deeply") from error


def _pieces(value: Any) -> Iterator[bytes]:
    """The JSON of a large value, for the same reason as large bodies are decoded in pieces."""
    if isinstance(value, Mapping):
        before = b"{"
        for name, part in value.items():
            yield before + encoder.encode(name) + b":"
            yield from _pieces(part)
            before = b","
        yield b"}" if value else b"{}"
    elif isinstance(value, list) and len(value) > PIECE:
        before = b"["
        for at in range(0, len(value), PIECE):
            yield before
            yield encoder.encode(value[at : at + PIECE])[1:-1]
            before = b","
        yield b"]"
    elif isinstance(value, list):
        before = b"["
        for part in value:
            yield before
            yield from _pieces(part)
            before = b","
        yield b"]" if value else b"[]"
    else:
        yield encoder.encode(value)
