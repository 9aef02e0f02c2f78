"""Token ids to text, piece by piece.

The joined texts of all pushes equal ``tokenizers``' own decode of the whole sequence, wherever it is cut. Characters
come out whole: the bytes of one that is not complete are carried in the state, and so is what the decoder must see to
go on. The one deliberate difference is in ``derender_core.byte_runs``.

Nothing is ever cleaned up (``clean_up_tokenization_spaces``): that loses text, and depends on the cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from derender_core.byte_runs import ByteLevelTail, PieceTail
from derender_core.errors import TokenIdError
from derender_core.inputs import Special
from derender_core.token_window import TokenWindow

if TYPE_CHECKING:
    from derender_core.tokenizer import ModelTokenizer

__all__ = ["Decoded", "Detokenizer"]

FEW = 16
"""Up to so many ids are looked up one by one; for more of them `itemgetter` takes half the time."""

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
        self._lengths = list(map(len, self._plain))
        # Parts of characters and nothing else; without byte-level tokens there are none.
        cared_for = self._reported | self._dropped
        self._parts = {} if self._tail is not ByteLevelTail else _others(tokenizer.table.partial, cared_for)
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
        if prompt and self._tail is ByteLevelTail and 0 <= prompt[-1] < len(self._plain) and self._plain[prompt[-1]]:
            return {}  # a whole character at the end, as nearly always
        return self._tail.seed(self._tokenizer, self._kept(prompt), self._kept(reversed(prompt))).state()

    def push(
        self, state: dict[str, Any], token_ids: Sequence[int], *, final: bool = False, checked: bool = False
    ) -> tuple[Decoded, dict[str, Any]]:
        """Decode the next ids. Pure: ``state`` is not changed.

        Args:
            state: what ``start`` or the push before gave; from outside, only after ``check_state``.
            token_ids: the next ids; those that the tokenizer does not know give nothing.
            final: no more ids follow. What is incomplete is let out as ``tokenizers`` would: as U+FFFD.
            checked: the caller has seen to it that no id is negative.

        Raises:
            TokenIdError: a negative id.
        """
        if not checked and token_ids and min(token_ids) < 0:
            raise TokenIdError(_NEGATIVE.format(min(token_ids)), "token_ids")
        texts, lengths = self._look_up(token_ids)
        if state or 0 in lengths:
            return self._push_with_care(state, token_ids, texts, lengths, final=final)
        return Decoded("".join(texts), (), lengths), state

    def _look_up(self, token_ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The text of each id and its length; ``""`` for each that needs care."""
        plain = self._plain
        try:
            if len(token_ids) > FEW:
                look_up = itemgetter(*token_ids)
                return list(look_up(plain)), list(look_up(self._lengths))
            texts = [plain[token_id] for token_id in token_ids]
        except IndexError:
            size = len(plain)
            texts = [plain[token_id] if token_id < size else "" for token_id in token_ids]
        return texts, list(map(len, texts))

    def _push_with_care(
        self, state: dict[str, Any], token_ids: Sequence[int], texts: list[str], lengths: list[int], *, final: bool
    ) -> tuple[Decoded, dict[str, Any]]:
        """Fill in the texts of the ids that need care, and of those behind which something is held back."""
        tail = self._tail(self._tokenizer, state)
        feed, parts = tail.feed, self._parts
        dropped, reported, size = self._dropped, self._reported, self._tokenizer.size
        marked: list[int] = []
        count = len(token_ids)
        lengths.append(0)  # where the last stretch of looked-up texts ends
        at = 0 if tail.holds else lengths.index(0)
        while at < count:
            token_id = token_ids[at]
            if token_id in parts and isinstance(tail, ByteLevelTail):
                at = tail.feed_parts(parts, token_ids, texts, lengths, at)
            else:
                text = texts[at] = "" if token_id >= size or token_id in dropped else feed(token_id)
                lengths[at] = len(text)
                if text and token_id in reported:
                    marked.append(at)
                at += 1
            if lengths[at] and not tail.holds:
                at = lengths.index(0, at)
        del lengths[-1]
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
            at += sum(lengths[end : place + 1])
            token_id, text = token_ids[place], texts[place]
            own = self._own_texts[token_id]
            if own and text.endswith(own):
                specials.append(Special(at - len(own), at, token_id))
            elif own.endswith(text):  # the start of the sequence may be stripped
                specials.append(Special(at - lengths[place], at, token_id))
            end = place + 1
        return tuple(specials)

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


def _others(parts: dict[int, bytes], token_ids: frozenset[int]) -> dict[int, bytes]:
    """The parts of all tokens but these; the dict itself when nothing changes."""
    if token_ids.isdisjoint(parts):
        return parts
    return {token_id: data for token_id, data in parts.items() if token_id not in token_ids}


def _without(texts: Sequence[str | None], token_ids: frozenset[int]) -> list[str]:
    """The table with ``""`` for these ids and for those without a text."""
    plain = [text or "" for text in texts]
    for token_id in token_ids:
        if token_id < len(plain):
            plain[token_id] = ""
    return plain
