"""What ends a text: stop tokens, which are no text, and stop strings, at which it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from derender_core.errors import InputError
from derender_core.stop import StopStrings
from derender_server.wire.derender import ChatRequestView, CompletionRequestView

__all__ = ["Ending", "TextOptions", "find_ending"]


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The fields of a request that decide which of the generated tokens are text.

    Args:
        skip_special_tokens: special tokens that no parser asked for are left out.
        stop: strings at which the text ends.
        stop_token_ids: tokens that end it, besides the model's own.
        include_stop: what ended the text stays in it.
        ignore_eos: the model's own end tokens do not end it.
        min_tokens: stop strings that end within this many tokens do not count.
    """

    skip_special_tokens: bool = True
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    include_stop: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0

    @classmethod
    def of(cls, request: ChatRequestView | CompletionRequestView | None, param: str) -> TextOptions:
        """The options of a request.

        Args:
            request: the request, if there is one.
            param: its dotted path, for errors.

        Raises:
            InputError: a stop string is empty, or ``min_tokens`` is negative.
        """
        if request is None:
            return _DEFAULT
        stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
        if "" in stop:
            raise InputError(f"{param}.stop: a stop string must not be empty", f"{param}.stop")
        if request.min_tokens is not None and request.min_tokens < 0:
            raise InputError(f"{param}.min_tokens must not be negative", f"{param}.min_tokens")
        return cls(
            skip_special_tokens=request.skip_special_tokens is not False,
            stop=stop,
            stop_token_ids=frozenset(request.stop_token_ids or ()),
            include_stop=bool(request.include_stop_str_in_output),
            ignore_eos=bool(request.ignore_eos),
            min_tokens=request.min_tokens or 0,
        )

    def stop_strings(self, *reported: str) -> StopStrings | None:
        """The stop strings to look for: those the engine reported, else those of the request."""
        strings = reported or self.stop
        return StopStrings(strings, self.include_stop, self.min_tokens) if strings else None


_DEFAULT = TextOptions()


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a sequence, or a chunk of one, ends.

    Args:
        text_ids: the ids that are text: all, or all but the stop token.
        stop_reason: the stop token's id unless it is the primary EOS, or the stop string that the engine reports.
    """

    text_ids: Sequence[int]
    stop_reason: int | str | None


def find_ending(
    token_ids: Sequence[int],
    finish_reason: str | None,
    stop_reason: int | str | None,
    options: TextOptions,
    *,
    eos_token_id: int | None,
    eos_token_ids: frozenset[int],
) -> Ending:
    """Tell the stop token from the text: it is the last id, when the engine finished with ``"stop"``.

    Args:
        token_ids: the generated ids.
        finish_reason: the engine's.
        stop_reason: the engine's: a token id, a stop string, or None.
        options: the request's.
        eos_token_id: the model's primary end token.
        eos_token_ids: all its end tokens.
    """
    if finish_reason != "stop" or isinstance(stop_reason, str) or not token_ids:
        return Ending(token_ids, stop_reason)
    last = token_ids[-1]
    is_stop = (
        last == stop_reason
        or last in options.stop_token_ids
        or (not options.ignore_eos and (last == eos_token_id or last in eos_token_ids))
    )
    if not is_stop:
        return Ending(token_ids, stop_reason)
    reported = None if last == eos_token_id else last
    return Ending(token_ids if options.include_stop else token_ids[:-1], reported)
