"""The plugins: a class of vLLM's behind the hooks, by replay."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from derender_core import (
    Delta,
    Event,
    ParseContext,
    Prompt,
    Reasoning,
    ReplayPlugin,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    hookimpl,
    normalize_arguments,
)
from derender_vllm_bridge.calls import CallWriter, is_object, text_event
from derender_vllm_bridge.pieces import Piece, Pieces
from derender_vllm_bridge.requests import chat_request

__all__ = ["ReasoningPlugin", "ToolPlugin"]

# Markers that parsers name by properties and not by attributes of their own.
MARKER_PROPERTIES = ("start_token", "end_token", "reasoning_start_str", "reasoning_end_str")


class _Feed:
    """What both kinds of streaming calls need: everything so far, once without the new piece and once with it."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._held = ""
        self._text = ""
        self._token_ids: list[int] = []

    def _split(self, delta: Delta) -> list[Piece]:
        """The next pieces."""
        pieces, self._held = self._pieces.split(self._held, delta)
        return pieces

    def _arguments(self, piece: Piece) -> tuple[str, str, str, list[int], list[int], list[int]]:
        """The six positional arguments of the streaming methods."""
        text, token_ids = self._text + piece.text, [*self._token_ids, *piece.token_ids]
        given = (self._text, text, piece.text, self._token_ids, token_ids, list(piece.token_ids))
        self._text, self._token_ids = text, token_ids
        return given


class _ToolFeed(_Feed):
    def __init__(self, plugin: ToolPlugin, context: ParseContext) -> None:
        super().__init__(plugin.pieces)
        self._parser, self._request = plugin.make(context)
        self._end = plugin.end_token_ids
        self._calls = CallWriter(whole=context.stream_tool_calls == "whole")

    def feed(self, delta: Delta) -> Iterator[Event]:
        """Give the parser the pieces of a delta, one after the other."""
        for piece in self._split(delta):
            yield from self._piece(piece)
        if delta.final:
            cut = delta.finish_reason == "length"
            if not cut and self._end:
                yield from self._piece(Piece("", self._end, ()))  # vLLM's parsers see the token that ends the output
            yield from self._message(_finish(self._parser), Piece("", (), ()))
            if not cut and self._calls.is_open:
                yield from self._unsent()
            yield from self._calls.close(cut=cut)

    def _piece(self, piece: Piece) -> Iterator[Event]:
        message = self._parser.extract_tool_calls_streaming(*self._arguments(piece), self._request)
        yield from self._message(message, piece)

    def _message(self, message: Any, piece: Piece) -> Iterator[Event]:
        if message is None:
            return
        if message.content:
            if is_object(self._calls.arguments):
                yield from self._calls.close()
            yield text_event(message.content, piece.text, piece.specials)
        yield from self._calls.message(message, self._text)

    def _unsent(self) -> Iterator[Event]:
        """The rest of the last call's arguments. vLLM's server sends it at the end, from the parser's own record."""
        known = getattr(self._parser, "prev_tool_call_arr", None) or [{}]
        arguments = known[-1].get("arguments") if isinstance(known[-1], dict) else None
        if arguments is None:
            return
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        sent = self._calls.arguments
        if text.startswith(sent) and len(text) > len(sent) and not is_object(sent):
            yield from self._calls.add(text[len(sent) :])


class _ReasoningFeed(_Feed):
    def __init__(self, plugin: ReasoningPlugin, context: ParseContext) -> None:
        super().__init__(plugin.pieces)
        self._context = context
        self._parser = plugin.begin(context)
        self._streaming = _method(self._parser, "extract_reasoning_streaming", "extract_reasoning_content_streaming")
        self._ended = context.reasoning_open is False

    def feed(self, delta: Delta) -> Iterator[Event]:
        """Give the parser the pieces of a delta. Behind the end of the reasoning it is not asked any more."""
        if self._ended:
            yield from self._answer(delta)
            return
        for piece in self._split(delta):
            if self._ended:
                yield Text(piece.text, piece.specials)
            else:
                yield from self._piece(piece)
        if delta.final and not self._ended:
            yield from self._message(_finish(self._parser), Piece("", (), ()))
            fallback = getattr(self._parser, "get_streaming_fallback_content", None)
            content = fallback(self._text, chat_request(self._context)) if fallback is not None else None
            if content:
                yield Text(content)

    def _answer(self, delta: Delta) -> Iterator[Event]:
        held, self._held = self._held, ""
        if held:
            yield Text(held)
        if delta.text:
            yield Text(delta.text, delta.specials)

    def _piece(self, piece: Piece) -> Iterator[Event]:
        arguments = self._arguments(piece)
        yield from self._message(self._streaming(*arguments), piece)
        if self._is_end(arguments[4], arguments[5]):
            self._ended = True
            yield from self._message(_finish(self._parser), Piece("", (), ()))

    def _is_end(self, token_ids: list[int], new: list[int]) -> bool:
        if getattr(self._parser, "engine_based_streaming", False):
            return bool(self._parser.has_engine_confirmed_reasoning_end())
        streaming = getattr(self._parser, "is_reasoning_end_streaming", None)
        return bool(streaming(token_ids, new) if streaming is not None else self._parser.is_reasoning_end(token_ids))

    def _message(self, message: Any, piece: Piece) -> Iterator[Event]:
        reasoning = _reasoning(message)
        if reasoning:
            yield Reasoning(reasoning)
        if message is not None and message.content:
            yield text_event(message.content, piece.text, piece.specials)


class _Plugin(ReplayPlugin):
    """What both slots share.

    Args:
        parser_class: vLLM's class.
        tokenizer: vLLM's tokenizer of the model.
        description: one line.
        feed: makes what feeds a parser.
    """

    def __init__(
        self, parser_class: Any, tokenizer: Any, description: str, feed: Callable[[Any, ParseContext], Any]
    ) -> None:
        super().__init__(lambda context: feed(self, context), description=description)
        self.parser_class, self.tokenizer = parser_class, tokenizer
        self.pieces = Pieces(tokenizer)
        end = getattr(tokenizer, "eos_token_id", None)
        self.end_token_ids: tuple[int, ...] = () if end is None else (end,)

    def _visible(self, parser: Any, request: Any) -> tuple[str, ...]:
        """The added tokens that a parser names in its attributes, and all special ones when it asks to see them."""
        values = [getattr(parser, name, None) for name in (*vars(parser), *MARKER_PROPERTIES)]
        tokens = {value for value in values if isinstance(value, str) and value in self.pieces.added}
        if getattr(request, "skip_special_tokens", True) is False:
            tokens |= set(self.tokenizer.all_special_tokens) - {getattr(self.tokenizer, "eos_token", None)}
        return tuple(sorted(tokens))


class ToolPlugin(_Plugin):
    """A ``ToolParser`` of vLLM's."""

    def __init__(self, parser_class: Any, tokenizer: Any, description: str) -> None:
        super().__init__(parser_class, tokenizer, description, _ToolFeed)

    def make(self, context: ParseContext) -> tuple[Any, Any]:
        """A fresh parser and the request as it wants it."""
        request = chat_request(context)
        takes_tools = "tools" in inspect.signature(self.parser_class).parameters
        parser = self.parser_class(self.tokenizer, **({"tools": request.tools} if takes_tools else {}))
        if hasattr(parser, "skip_reasoning_parsing"):
            parser.skip_reasoning_parsing = True  # that slot is derender's: what is left of its markup is text
        return parser, _adjusted(parser, request)

    @hookimpl
    def derender_special_tokens(self, context: ParseContext) -> tuple[str, ...]:  # type: ignore[override]
        """What the parser looks for, or all but the token that ends an output, as vLLM shows them."""
        return self._visible(*self.make(context))

    @hookimpl
    def derender_extract(self, output: Delta, context: ParseContext) -> Sequence[Event]:
        """As vLLM does it: whole outputs have a method of their own."""
        parser, request = self.make(context)
        found = parser.extract_tool_calls(output.text, request=request)
        content = found.content or ""
        if not found.tools_called:
            return [text_event(content, output.text, output.specials)] if content else []
        events: list[Event] = [Text(content)] if content else []
        calls = [(call, normalize_arguments(call.function.arguments)) for call in found.tool_calls]
        if output.finish_reason != "length" and any(arguments is None for _, arguments in calls):
            return [Text(output.text, output.specials)]  # a malformed call is text; one that was cut is nothing
        for index, (call, arguments) in enumerate(pair for pair in calls if pair[1] is not None):
            written = call.id if call.id and call.id in output.text else None
            events.append(ToolCallStart(index, call.function.name, written))
            events += [ToolCallArguments(index, arguments or "{}"), ToolCallEnd(index)]
        return events


class ReasoningPlugin(_Plugin):
    """A ``ReasoningParser`` of vLLM's."""

    def __init__(self, parser_class: Any, tokenizer: Any, description: str) -> None:
        super().__init__(parser_class, tokenizer, description, _ReasoningFeed)

    def make(self, context: ParseContext) -> Any:
        """A fresh parser."""
        parameters = inspect.signature(self.parser_class).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if takes_any or any(parameter.name == "chat_template_kwargs" for parameter in parameters):
            return self.parser_class(self.tokenizer, chat_template_kwargs=dict(context.template_kwargs))
        return self.parser_class(self.tokenizer)

    def begin(self, context: ParseContext) -> Any:
        """A fresh parser that knows whether the prompt opened the reasoning."""
        parser = self.make(context)
        if context.reasoning_open:
            opened = self.pieces.encode(_opener(parser) or "")
            for name in ("set_prompt_token_ids", "adjust_initial_state_from_prompt"):
                getattr(parser, name, lambda _: None)(opened)
        return parser

    @hookimpl
    def derender_special_tokens(self, context: ParseContext) -> tuple[str, ...]:  # type: ignore[override]
        """As for tool parsers."""
        parser = self.make(context)
        return self._visible(parser, _adjusted(parser, chat_request(context)))

    @hookimpl
    def derender_prompt_opens_reasoning(self, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """False when the prompt's current turn has ended the reasoning, True when it ends inside, else None."""
        if prompt is None:
            return None
        parser = self.make(context)
        if parser.is_reasoning_end(self.pieces.encode(prompt.current_turn)):
            return False
        opener = _opener(parser)
        return True if opener and prompt.last_of(opener) else None

    @hookimpl
    def derender_extract(self, output: Delta, context: ParseContext) -> Sequence[Event]:
        """As vLLM does it: whole outputs have a method of their own."""
        if context.reasoning_open is False:
            return [Text(output.text, output.specials)] if output.text else []
        whole = _method(self.begin(context), "extract_reasoning", "extract_reasoning_content")
        reasoning, content = whole(output.text, request=chat_request(context))
        events: list[Event] = [Reasoning(reasoning)] if reasoning else []
        return [*events, text_event(content, output.text, output.specials)] if content else events


def _method(parser: Any, *names: str) -> Any:
    """The first of these methods that a parser has: vLLM renamed some."""
    return next(getattr(parser, name) for name in names if hasattr(parser, name))


def _opener(parser: Any) -> str | None:
    """The marker with which reasoning begins, if the parser names it."""
    names = ("reasoning_start_str", "start_token")
    return next((value for name in names if isinstance(value := getattr(parser, name, None), str) and value), None)


def _adjusted(parser: Any, request: Any) -> Any:
    """The request as the parser wants it."""
    adjust = getattr(parser, "adjust_request", None)
    return adjust(request=request) if adjust is not None else request


def _finish(parser: Any) -> Any:
    """What a parser has held back. Not all have such a method."""
    finish = getattr(parser, "finish_streaming", None)
    return finish() if finish is not None else None


def _reasoning(message: Any) -> str | None:
    fields: Iterable[str] = ("reasoning", "reasoning_content")
    return next((value for name in fields if (value := getattr(message, name, None))), None)
