"""What derendering is set up with: the model, the parsers and the choices of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from derender_core.inputs import ParseContext, StreamToolCalls
from derender_core.pipeline import Pipeline
from derender_core.registry import Parser
from derender_server.chat_options import ReasoningField
from derender_server.limits import Limits
from derender_server.logprobs import TokenStrings
from derender_server.model import ServedModel
from derender_server.stream_state import StateCodec

__all__ = ["Deployment"]

# A state may have to hold a whole call, or in the replay form all ids; both are bounded by the model's length.
STATE_BYTES = 65536
STATE_BYTES_PER_TOKEN = 64


@dataclass(frozen=True)
class Deployment:
    """The setup, the same for all requests.

    Args:
        model: the served model.
        limits: what is accepted.
        tool_parser: the tool parser, if any.
        reasoning_parser: the reasoning parser, if any.
        enable_auto_tool_choice: the tool parser runs with ``tool_choice: "auto"`` too.
        stream_tool_calls: whether streams send calls as they come, or whole.
        reasoning_field: the name under which clients get the reasoning.
        default_chat_template_kwargs: under those of the request.
        state_secret: signs stream states; None leaves them unsigned.
    """

    model: ServedModel
    limits: Limits
    tool_parser: Parser | None = None
    reasoning_parser: Parser | None = None
    enable_auto_tool_choice: bool = False
    stream_tool_calls: StreamToolCalls = "arguments"
    reasoning_field: ReasoningField = "reasoning"
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    state_secret: str | None = field(default=None, repr=False)

    @property
    def has_parser(self) -> bool:
        """Whether chat requests must come with answers."""
        return self.tool_parser is not None or self.reasoning_parser is not None

    def pipeline(self, context: ParseContext) -> Pipeline:
        """The parsers that run for a request."""
        if context.tool_choice == "auto" and not self.enable_auto_tool_choice:
            return self._reasoning_only
        return self._both

    def codec(self, *, parsers: bool) -> StateCodec:
        """Writer and reader of stream states, of chats with their parsers or of completions without."""
        return self._chat_codec if parsers else self._completion_codec

    def api_codec(self, wire: Literal["responses", "messages"]) -> StateCodec:
        """Writer and reader of the stream states of another API, which are of no use to chats."""
        return replace(self._chat_codec, wire=wire)

    @cached_property
    def plain(self) -> Pipeline:
        """The pipeline of completions: nothing runs."""
        return Pipeline()

    @cached_property
    def strings(self) -> TokenStrings:
        """Strings and bytes of the model's tokens."""
        return TokenStrings(self.model.tokenizer, self.model.vocab_size)

    @cached_property
    def call_id_length(self) -> int | None:
        """How long the ids of calls must be, if the model's format says so."""
        return None if self.tool_parser is None else self.tool_parser.call_id_length()

    @cached_property
    def _both(self) -> Pipeline:
        return Pipeline(self.tool_parser, self.reasoning_parser)

    @cached_property
    def _reasoning_only(self) -> Pipeline:
        return Pipeline(None, self.reasoning_parser)

    @cached_property
    def _chat_codec(self) -> StateCodec:
        names = tuple(parser.name if parser is not None else "" for parser in (self.tool_parser, self.reasoning_parser))
        return self._make_codec((names[0], names[1]))

    @cached_property
    def _completion_codec(self) -> StateCodec:
        return self._make_codec(("", ""))

    def _make_codec(self, names: tuple[str, str]) -> StateCodec:
        max_bytes = STATE_BYTES + STATE_BYTES_PER_TOKEN * self.limits.max_model_len
        return StateCodec(names, max_bytes, self.state_secret.encode() if self.state_secret else None)
