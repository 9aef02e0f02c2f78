"""Token ids to text, piece by piece.

The joined texts of all pushes equal ``tokenizers``' own decode of the whole sequence, wherever it is cut. Characters
come out whole: the bytes of one that is not complete are carried in the state, and so is what the decoder must see to
go on. The one deliberate difference is in ``derender_core.byte_runs``.

Nothing is ever cleaned up (``clean_up_tokenization_spaces``): that loses text, and depends on the cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
        self._tail: type[ByteLevelTail | PieceTail | TokenWindow] = _TAILS[tokenizer.table.shape.kind]
        self._reported = tokenizer.added_ids if visible is None else visible
        self._dropped: frozenset[int] = frozenset() if visible is None else tokenizer.special_ids - visible
        self._plain = _without(tokenizer.table.texts, self._reported)
        self._own_texts = {token_id: tokenizer.token_text(token_id) for token_id in self._reported}

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
        pieces = self._pieces(token_ids)
        if state or None in pieces:
            return self._push_with_care(state, token_ids, pieces, final=final)
        texts = cast("list[str]", pieces)
        return Decoded("".join(texts), (), list(map(len, texts))), state

    def _pieces(self, token_ids: Sequence[int]) -> list[str | None]:
        """The text of each id that is looked up, None for each that needs care."""
        plain = self._plain
        try:
            return [plain[token_id] for token_id in token_ids]
        except IndexError:
            size = len(plain)
            return [plain[token_id] if token_id < size else None for token_id in token_ids]

    def _push_with_care(
        self, state: dict[str, Any], token_ids: Sequence[int], pieces: list[str | None], *, final: bool
    ) -> tuple[Decoded, dict[str, Any]]:
        """Fill in the texts of the ids that need care, and of those behind which something is held back."""
        tail = self._tail(self._tokenizer, state)
        feed, dropped, reported, size = tail.feed, self._dropped, self._reported, self._tokenizer.size
        marked: list[int] = []
        count = len(token_ids)
        pieces.append(None)  # where the last stretch of looked-up texts ends
        at = 0 if tail.holds else pieces.index(None)
        while at < count:
            token_id = token_ids[at]
            text = pieces[at] = "" if token_id >= size or token_id in dropped else feed(token_id)
            if token_id in reported and text:
                marked.append(at)
            at += 1
            if pieces[at] is not None and not tail.holds:
                at = pieces.index(None, at)
        del pieces[-1]
        texts = cast("list[str]", pieces)
        lengths = list(map(len, texts))
        specials = self._specials(token_ids, texts, lengths, marked) if marked else ()
        if final:
            texts.append(tail.flush())
        return Decoded("".join(texts), specials, lengths), {} if final else tail.state()

    def _specials(
        self, token_ids: Sequence[int], texts: Sequence[str], lengths: Sequence[int], marked: Sequence[int]
    ) -> tuple[Special, ...]:
        """Where in the text the tokens at the ``marked`` places stand."""
        specials: list[Special] = []
        at = end = 0
        for place in marked:
            text, size = texts[place], lengths[place]
            at += sum(lengths[end:place]) + size
            own = self._own_length(token_ids[place], text)
            if own:
                specials.append(Special(at - own, at, token_ids[place]))
            end = place + 1
        return tuple(specials)

    def _own_length(self, token_id: int, text: str) -> int:
        """How many characters at the end of ``text`` are the token's own; 0 when it cannot be told."""
        own = self._own_texts[token_id]
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


def _without(texts: list[str | None], token_ids: frozenset[int]) -> list[str | None]:
    """The table with None for these ids; the table itself when nothing changes."""
    found = [token_id for token_id in token_ids if token_id < len(texts) and texts[token_id] is not None]
    if found:
        texts = texts.copy()
        for token_id in found:
            texts[token_id] = None
    return texts
