"""``Stream``: token ids in, events out, with the whole state as a small JSON object.

One-shot parsing is a stream of one final push; a server that keeps nothing resumes a stream from its state. Either way
the same code runs, so the two agree by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from derender_core.detokenize import Decoded
from derender_core.errors import StateError
from derender_core.events import Event
from derender_core.inputs import Delta, ParseContext, Special
from derender_core.pipeline import Pipeline
from derender_core.reasoning_tokens import ReasoningTokens
from derender_core.stop import StopStrings
from derender_core.stream_setup import StreamSetup
from derender_core.tokenizer import ModelTokenizer

__all__ = ["Stream"]

# Keys of the state and the type each must have. What is empty or zero is left out.
_DETOKENIZER, _PARSERS, _OPEN, _TOKENS, _REASONING, _PENDING, _HELD, _MARKS, _STOPPED = "dponrqhmx"
_TYPES: dict[str, tuple[type, ...]] = {
    _DETOKENIZER: (dict,),
    _PARSERS: (dict,),
    _OPEN: (bool, type(None)),
    _TOKENS: (int,),
    _REASONING: (int,),
    _PENDING: (list,),
    _HELD: (str,),
    _MARKS: (list,),
    _STOPPED: (str,),
}


class Stream:
    """The output of one choice, as it is generated.

    Args:
        tokenizer: the model's tokenizer.
        pipeline: the parsers; without any, all text is ``Text``.
        context: what the parsers may know about the request.
        prompt_token_ids: what the model was given. Keeps the first token's leading space, and tells whether the output
            begins inside reasoning. Not needed with a ``state``.
        skip_special_tokens: whether special tokens that no parser asks for are dropped from the text.
        stop: the request's stop strings.
        state: what ``state`` of another stream of the same request gave; this one goes on where that one was.

    Raises:
        StateError: a state that was not made by a stream of this kind.
        ParserError: a parser failed.
    """

    def __init__(
        self,
        tokenizer: ModelTokenizer,
        pipeline: Pipeline | None = None,
        context: ParseContext | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        skip_special_tokens: bool = True,
        stop: StopStrings | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        setup = StreamSetup(tokenizer, pipeline, context, skip_special_tokens=skip_special_tokens)
        self._start(setup, prompt_token_ids, stop, state)

    @classmethod
    def of(
        cls,
        setup: StreamSetup,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        stop: StopStrings | None = None,
        state: dict[str, Any] | None = None,
    ) -> Self:
        """A stream of a request whose setup was kept. Arguments and errors are those of ``Stream``."""
        stream = cls.__new__(cls)
        stream._start(setup, prompt_token_ids, stop, state)
        return stream

    def _start(
        self,
        setup: StreamSetup,
        prompt_token_ids: Sequence[int] | None,
        stop: StopStrings | None,
        state: dict[str, Any] | None,
    ) -> None:
        self._pipeline, self._detokenizer = setup.pipeline, setup.detokenizer
        self._stop = stop if stop is not None and stop.strings else None
        if state is None:
            self._context = setup.open(prompt_token_ids)
            self._detokenizing = self._detokenizer.start(prompt_token_ids)
            state = {}
        else:
            self._check(state)
            self._context = setup.resume(state.get(_OPEN))
            self._detokenizing = state.get(_DETOKENIZER) or {}
        self._parsing: dict[str, Any] | None = state.get(_PARSERS)
        self._counter = ReasoningTokens(state.get(_REASONING, 0), state.get(_PENDING, []))
        self._held: str = state.get(_HELD, "")
        self._marks = tuple([Special(*mark) for mark in state.get(_MARKS, ())])
        self.output_tokens: int = state.get(_TOKENS, 0)
        self.stopped: str | None = state.get(_STOPPED)
        self.decoded = Decoded("", (), [])

    @property
    def reasoning_open(self) -> bool | None:
        """Whether the output begins inside reasoning; None when the output itself tells."""
        return self._context.reasoning_open

    @property
    def reasoning_tokens(self) -> int:
        """Output tokens so far that are reasoning; the markers around it are not."""
        return self._counter.total

    def push(
        self,
        token_ids: Sequence[int],
        *,
        final: bool = False,
        finish_reason: str | None = None,
        checked: bool = False,
    ) -> list[Event]:
        """Take the next token ids.

        Args:
            token_ids: as many as came; may be none.
            final: whether these are the last.
            finish_reason: with ``final``, the engine's reason; a call cut by "length" is treated differently from one
                that the model left open.
            checked: the caller has seen to it that no id is negative.

        Returns:
            The events that became certain. ``decoded`` holds the text of these tokens. A stop string ends the output
            like an engine that knew of it: what the parsers held back comes out, and nothing comes later.

        Raises:
            TokenIdError: a negative id.
            ParserError: a parser failed.
        """
        decoded, self._detokenizing = self._detokenizer.push(
            self._detokenizing, token_ids, final=final, checked=checked
        )
        self.decoded = decoded
        if self.stopped is not None:
            self.output_tokens += len(token_ids)
            return []
        if self._pipeline.reasoning is not None:
            self._counter.add(decoded.lengths)
        text, specials = self._cut(decoded, final) if self._stop else (decoded.text, decoded.specials)
        self.output_tokens += len(token_ids)
        if self.stopped is not None:
            final, finish_reason = True, "stop"
        if not text and not final:
            return []
        step = self._pipeline.parse_delta(self._parsing, Delta(text, specials, final, finish_reason), self._context)
        self._parsing = step.state
        if self._pipeline.reasoning is not None:
            self._counter.count(step.spans)
        return list(step.events)

    def _cut(self, decoded: Decoded, final: bool) -> tuple[str, tuple[Special, ...]]:
        """The text that is certain in view of the stop strings."""
        assert self._stop is not None
        early = self._stop.min_tokens - self.output_tokens
        free = len(self._held) + sum(decoded.lengths[:early]) if early > 0 else 0
        offset = len(self._held)
        marks = self._marks + tuple(
            Special(low + offset, high + offset, token) for low, high, token in decoded.specials
        )
        text, self._held, self.stopped = self._stop.push(self._held, decoded.text, free=free, final=final)
        size = len(text)
        split = next((mark.start for mark in marks if mark.start < size < mark.end), None)
        if split is not None and self.stopped is None:  # a special token goes out whole, as one delta would give it
            text, self._held = text[:split], text[split:] + self._held
            size = split
        behind = () if self.stopped is not None else marks  # behind a stop string there is no text
        self._marks = tuple(Special(low - size, high - size, token) for low, high, token in behind if low >= size)
        return text, tuple(mark for mark in marks if mark.end <= size)

    @property
    def state(self) -> dict[str, Any]:
        """The whole state: JSON-plain, and small whatever the length of the output."""
        state: dict[str, Any] = {_OPEN: self._context.reasoning_open} if self._pipeline.reasoning is not None else {}
        parts = (
            (_DETOKENIZER, self._detokenizing),
            (_PARSERS, self._parsing),
            (_TOKENS, self.output_tokens),
            (_REASONING, self._counter.total),
            (_PENDING, self._counter.pending),
            (_HELD, self._held),
            (_MARKS, [list(mark) for mark in self._marks] if self._marks else None),
        )
        state |= {key: value for key, value in parts if value}
        if self.stopped is not None:
            state[_STOPPED] = self.stopped
        return state

    def _check(self, state: object) -> None:
        """Refuse a state that could make parsing fail.

        Raises:
            StateError: says what is wrong.
        """
        if not isinstance(state, dict):
            raise StateError("stream_state must be an object, as the last chunk gave it")
        for key, value in state.items():
            allowed = _TYPES.get(key)
            if allowed is None:
                raise StateError(f"stream_state has an unknown part {key!r}; send it back as it was given")
            if type(value) not in allowed:
                raise StateError(f"stream_state has a part {key!r} of the wrong type; send it back as it was given")
        if any(not 0 <= state.get(key, 0) < 1 << 40 for key in (_TOKENS, _REASONING)):
            raise StateError("stream_state has a count out of range; send it back as it was given")
        if (self._stop is None and not state.keys().isdisjoint((_HELD, _MARKS, _STOPPED))) or (
            self._stop is not None and state.get(_STOPPED, self._stop.strings[0]) not in self._stop.strings
        ):
            raise StateError("stream_state was made with other stop strings; send the same with every chunk")
        if not _are_marks(state.get(_MARKS, []), len(state.get(_HELD, ""))):
            raise StateError("stream_state has marks that are no marks; send it back as it was given")
        if not all(type(length) is int and abs(length) < 1 << 40 for length in state.get(_PENDING, [])):
            raise StateError("stream_state has lengths that are no lengths; send it back as it was given")
        wrong = self._detokenizer.check_state(state.get(_DETOKENIZER) or {}) or self._pipeline.check_state(
            state.get(_PARSERS) or {}
        )
        if wrong:
            raise StateError(f"stream_state does not fit this server's model and parsers: {wrong}")


def _are_marks(marks: list[object], size: int) -> bool:
    return all(
        isinstance(mark, list)
        and len(mark) == 3
        and all(type(number) is int for number in mark)
        and 0 <= mark[0] <= mark[1] <= size
        for mark in marks
    )
