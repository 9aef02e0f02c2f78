"""Incremental decoding by any decoder: a small window of ids is decoded again for each new id."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from derender_core.tokenizer import ModelTokenizer

__all__ = ["TokenWindow"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
PENDING = 16
"""At most so many ids wait for a character to be completed."""
CONTEXT = 32
"""At most so many ids are kept as context."""


class TokenWindow:
    """Text that an id adds to the ids before it.

    ``c`` are the ids whose text came out last, ``p`` those behind them that gave nothing yet. The text of both less
    the text of ``c`` is new. It is held while it ends in U+FFFD (bytes of an unfinished character), and while it
    is not simply more text than that of ``c``. Exact where a token's text depends on its neighbours only, as in the
    WordPiece, BPEDecoder and CTC decoders. A chain that rewrites text already given, however far back, cannot be
    followed exactly by any stream.

    State: ``c`` and ``p``, and ``q``: how many ids of ``p`` are the prompt's.
    """

    __slots__ = ("_context", "_from_prompt", "_pending", "_tokenizer")

    def __init__(self, tokenizer: ModelTokenizer, state: dict[str, Any]) -> None:
        self._tokenizer = tokenizer.tokenizer
        self._context: list[int] = list(state.get("c", ()))
        self._pending: list[int] = list(state.get("p", ()))
        self._from_prompt: int = state.get("q", 0)

    @classmethod
    def seed(cls, tokenizer: ModelTokenizer, forward: Iterable[int], backward: Iterable[int]) -> Self:
        """The window behind a prompt, given as its ids from the front and from the back."""
        del forward
        window = cls(tokenizer, {})
        for token_id in reversed(list(islice(backward, CONTEXT))):
            window.feed(token_id)
        window._from_prompt = len(window._pending)
        return window

    def _decode(self, token_ids: list[int]) -> str:
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=False)) if token_ids else ""

    @property
    def holds(self) -> bool:
        """Whether the next token's text is not simply its own: of these decoders that is never known."""
        return True

    def feed(self, token_id: int) -> str:
        """Text that became certain with this id."""
        self._pending.append(token_id)
        before, text = self._decode(self._context), self._decode(self._context + self._pending)
        complete = text.startswith(before) and len(text) > len(before) and not text.endswith(REPLACEMENT)
        if not complete and len(self._pending) < PENDING:
            return ""
        new = text[len(before) :]
        # Ids without text are no context for those that follow: keep what stands before them.
        self._context = self._pending if new else (self._context + self._pending)[-CONTEXT:]
        self._pending, self._from_prompt = [], 0
        return new

    def flush(self) -> str:
        """What is left when no token follows."""
        if len(self._pending) == self._from_prompt:
            return ""
        return self._decode(self._context + self._pending)[len(self._decode(self._context)) :]

    def state(self) -> dict[str, Any]:
        """What the next push needs."""
        fields = {"c": self._context, "p": self._pending, "q": self._from_prompt}
        return {key: value for key, value in fields.items() if value}

    @staticmethod
    def check_state(tokenizer: ModelTokenizer, state: dict[str, Any]) -> str | None:
        """What is wrong with a state from outside, or None."""
        if not state.keys() <= {"c", "p", "q"}:
            return "its fields are not those of a token window"
        for key, limit in (("c", CONTEXT), ("p", PENDING - 1)):
            ids = state.get(key, [])
            if not isinstance(ids, list) or len(ids) > limit:
                return f"{key} must be a list of at most {limit} token ids"
            if not all(type(token_id) is int and 0 <= token_id < tokenizer.size for token_id in ids):
                return f"{key} holds something that is not a token id of this tokenizer"
        count = state.get("q", 0)
        if type(count) is not int or not 0 <= count <= len(state.get("p", [])):
            return "q must be an integer, and at most the length of p"
        return None
