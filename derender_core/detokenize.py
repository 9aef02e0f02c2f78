"""Token ids to text, piece by piece.

The joined texts of all pushes equal ``tokenizers``' own decode of the whole sequence, wherever it is cut. Characters
come out whole: the bytes of one that is not complete are carried in the state, and so is what the decoder must see to
go on. The one deliberate difference is in ``derender_core.byte_runs``.

Nothing is ever cleaned up (``clean_up_tokenization_spaces``): that loses text, and depends on the cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from derender_core.byte_runs import ByteLevelTail, PieceTail
from derender_core.errors import TokenIdError
from derender_core.inputs import Special
from derender_core.token_window import TokenWindow

if TYPE_CHECKING:
    from derender_core.tokenizer import ModelTokenizer

__all__ = ["Decoded", "Detokenizer"]

_NEGATIVE = "token id {} is negative; token ids start at 0"
_TAILS: dict[str, type[ByteLevelTail | PieceTail | TokenWindow]] = {
    "bytes": ByteLevelTail,
    "pieces": PieceTail,
    "other": TokenWindow,
}


class Decoded(NamedTuple):
    """What one push gave.

    Args:
        text: the text that became certain.
        specials: where visible special tokens stand in it.
        lengths: for each given id, how many characters of ``text`` came with it. A character made of several tokens
            belongs to the one that completes it. They sum to ``len(text)``, less what ``final`` let out at the end.
    """

    text: str
    specials: tuple[Special, ...]
    lengths: list[int]


class Detokenizer:
    """Decodes the output of one model, for any number of streams at once.

    Args:
        tokenizer: the model's tokenizer.
        visible: special tokens that are kept as text; all others are dropped. None keeps all. Those kept are reported
            in ``Decoded.specials``, and so are added tokens that are not flagged special when they are named here.
    """

    def __init__(self, tokenizer: ModelTokenizer, *, visible: frozenset[int] | None) -> None:
        self._tokenizer = tokenizer
        self._texts = tokenizer.table.texts
        self._tail: type[ByteLevelTail | PieceTail | TokenWindow] = _TAILS[tokenizer.table.shape.kind]
        self._reported = tokenizer.added_ids if visible is None else visible
        self._dropped: frozenset[int] = frozenset() if visible is None else tokenizer.special_ids - visible

    def start(self, prompt_token_ids: Sequence[int] | None) -> dict[str, Any]:
        """The state before the output of a model that was given this prompt.

        With a prompt the output's text is what decoding prompt and output together adds to the prompt's own text. A
        character that the prompt left unfinished comes out whole if the output finishes it, and else not at all.

        Args:
            prompt_token_ids: the prompt; only as much of its two ends is read as matters. None or empty: the output is
                a sequence of its own.

        Raises:
            TokenIdError: a negative id among those that were read.
        """
        prompt = prompt_token_ids or ()
        return self._tail.seed(self._tokenizer, self._kept(prompt), self._kept(reversed(prompt))).state()

    def push(
        self, state: dict[str, Any], token_ids: Sequence[int], *, final: bool = False
    ) -> tuple[Decoded, dict[str, Any]]:
        """Decode the next ids. Pure: ``state`` is not changed.

        Args:
            state: what ``start`` or the push before gave; from outside, only after ``check_state``.
            token_ids: the next ids; those that the tokenizer does not know give nothing.
            final: no more ids follow. What is incomplete is let out as ``tokenizers`` would: as U+FFFD.

        Raises:
            TokenIdError: a negative id.
        """
        if token_ids and min(token_ids) < 0:
            raise TokenIdError(_NEGATIVE.format(min(token_ids)), "token_ids")
        if not state and self._reported.isdisjoint(token_ids):
            texts = self._texts
            try:
                pieces = [texts[token_id] for token_id in token_ids]
                # An id that needs care has no text, and join refuses it.
                return Decoded("".join(pieces), (), [len(piece) for piece in pieces]), state  # type: ignore[arg-type]
            except (IndexError, TypeError):
                pass
        return self._push_each(state, token_ids, final=final)

    def _push_each(
        self, state: dict[str, Any], token_ids: Sequence[int], *, final: bool
    ) -> tuple[Decoded, dict[str, Any]]:
        tail = self._tail(self._tokenizer, state)
        dropped, reported, size = self._dropped, self._reported, self._tokenizer.size
        texts: list[str] = []
        specials: list[Special] = []
        at = 0
        for token_id in token_ids:
            text = "" if token_id >= size or token_id in dropped else tail.feed(token_id)
            texts.append(text)
            if token_id in reported and text:
                start = len(text) - self._own_length(token_id, text)
                if start < len(text):
                    specials.append(Special(at + start, at + len(text), token_id))
            at += len(text)
        lengths = [len(text) for text in texts]
        if final:
            texts.append(tail.flush())
        return Decoded("".join(texts), tuple(specials), lengths), {} if final else tail.state()

    def _own_length(self, token_id: int, text: str) -> int:
        """How many characters at the end of ``text`` are the token's own; 0 when it cannot be told."""
        own = self._tokenizer.token_text(token_id)
        if text.endswith(own):
            return len(own)
        return len(text) if own.endswith(text) else 0  # the start of the sequence may be stripped

    def _kept(self, token_ids: Iterable[int]) -> Iterator[int]:
        """The ids that a decoder sees."""
        for token_id in token_ids:
            if token_id < 0:
                raise TokenIdError(_NEGATIVE.format(token_id), "prompt_token_ids")
            if token_id < self._tokenizer.size and token_id not in self._dropped:
                yield token_id

    def check_state(self, state: object) -> str | None:
        """What is wrong with a state that came from outside, or None. ``push`` takes any state that passes."""
        if not isinstance(state, dict):
            return "it must be an object"
        return self._tail.check_state(self._tokenizer, state)
