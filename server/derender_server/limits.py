"""Limits on what an engine may hand in, checked before any work is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import msgspec

from derender_core.errors import InputError, TokenIdError
from derender_server.wire.derender import EngineLogprobs

__all__ = ["Limits"]


MANY = 128
"""From so many ids on ``msgspec`` tells in a quarter of the time whether they are all in range."""


@cache
def _ids_below(size: int) -> Any:
    return list[Annotated[int, msgspec.Meta(ge=0, lt=size)]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is accepted.

    Args:
        max_model_len: tokens of prompt and output together.
        vocab_size: token ids are below it.
        max_choices: choices, and responses, in one request.
        max_logprobs: alternatives at one position; -1 is no limit.
    """

    max_model_len: int
    vocab_size: int
    max_choices: int = 16384
    max_logprobs: int = 20

    def check_count(self, count: int, param: str) -> None:
        """Refuse too many responses or choices.

        Raises:
            InputError: ``count`` is above ``max_choices``.
        """
        if count > self.max_choices:
            raise InputError(
                f"{param} has {count} entries; at most {self.max_choices} (--max-choices) are allowed", param
            )

    def check_length(self, items: Sequence[object] | None, param: str) -> None:
        """Refuse a list that is longer than any sequence can be.

        Raises:
            InputError: it has more than ``max_model_len`` entries.
        """
        if items is not None and len(items) > self.max_model_len:
            raise InputError(
                f"{param} has {len(items)} entries; at most {self.max_model_len} (max_model_len) fit", param
            )

    def check_ids(self, token_ids: Sequence[int] | None, param: str) -> None:
        """Refuse ids that are too many, or that are not the model's.

        Raises:
            InputError: more than ``max_model_len``.
            TokenIdError: an id below 0, or at or above ``vocab_size``; names the first.
        """
        if not token_ids:
            return
        self.check_length(token_ids, param)
        if not self._all_known(token_ids):
            at, wrong = next((at, i) for at, i in enumerate(token_ids) if not 0 <= i < self.vocab_size)
            raise TokenIdError(
                f"{param}.{at}: token id {wrong} is out of range; the model's ids go from 0 to {self.vocab_size - 1}",
                f"{param}.{at}",
            )

    def _all_known(self, token_ids: Sequence[int]) -> bool:
        if len(token_ids) > MANY:
            with suppress(msgspec.ValidationError):
                msgspec.convert(token_ids, _ids_below(self.vocab_size))
                return True
        return min(token_ids) >= 0 and max(token_ids) < self.vocab_size

    def check_logprobs(self, logprobs: EngineLogprobs | None, param: str) -> None:
        """Refuse too many entries, or too many alternatives in one.

        Raises:
            InputError: more than ``max_model_len`` entries, or more than ``max_logprobs`` alternatives.
        """
        content = logprobs.content if logprobs is not None else None
        if not content:
            return
        self.check_length(content, f"{param}.content")
        if self.max_logprobs < 0:
            return
        for at, entry in enumerate(content):
            if entry.top_logprobs is not None and len(entry.top_logprobs) > self.max_logprobs:
                where = f"{param}.content.{at}.top_logprobs"
                raise InputError(
                    f"{where} has {len(entry.top_logprobs)} entries; at most {self.max_logprobs} (--max-logprobs) "
                    "are allowed",
                    where,
                )

    def check_total(self, prompt: int, before: int, now: int) -> None:
        """Refuse a stream that has grown longer than any sequence can be.

        Args:
            prompt: tokens of the prompt.
            before: output tokens of the chunks before.
            now: output tokens of this chunk.

        Raises:
            InputError: together they are above ``max_model_len``.
        """
        if prompt + before + now > self.max_model_len:
            raise InputError(
                f"the prompt ({prompt} tokens), the output so far ({before}) and this chunk ({now}) are together "
                f"longer than max_model_len ({self.max_model_len})",
                "generate_chunk.choices.0.token_ids",
            )
