"""Putting characters together from tokens that are bytes, for the decoders that ``token_table`` knows.

Both classes follow one decoder of ``tokenizers`` through one push: ``feed`` takes an id and gives the text that became
certain, ``flush`` gives what was held back, ``state`` is what the next push needs (``{}`` when nothing is).
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from derender_core.tokenizer import ModelTokenizer

__all__ = ["HELD_BYTES", "ByteLevelTail", "PieceTail"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

HELD_BYTES = 64
"""How many bytes of a run of byte tokens are held until it is known to be valid as a whole (see ``PieceTail``)."""


class ByteLevelTail:
    """The ByteLevel decoder: all bytes of the sequence are one UTF-8 text; what is invalid becomes U+FFFD.

    State: ``b``, the bytes of the unfinished character in hexadecimal; ``q``, 1 if it began in the prompt.
    """

    __slots__ = ("_from_prompt", "_pending", "_table")

    def __init__(self, tokenizer: ModelTokenizer, state: dict[str, Any]) -> None:
        self._table = tokenizer.table
        self._pending = bytes.fromhex(state.get("b", ""))
        self._from_prompt = bool(state.get("q"))

    @classmethod
    def seed(cls, tokenizer: ModelTokenizer, forward: Iterable[int], backward: Iterable[int]) -> Self:
        """The decoder behind a prompt, given as its ids from the front and from the back."""
        del forward  # the start of a sequence is nothing special here
        tail = cls(tokenizer, {})
        data = b""
        for token_id in backward:
            text = tail._table.texts[token_id]
            part = tail._table.partial.get(token_id, b"")
            data = part + data
            # An unfinished character is at most three bytes long, and whole characters end before it.
            if text or token_id in tail._table.specials or len(data) > 3:
                break
        tail._pending = _decode_lossy(data)[1]
        tail._from_prompt = bool(tail._pending)
        return tail

    @property
    def holds(self) -> bool:
        """Whether the next ordinary token's text is not simply its own."""
        return bool(self._pending)

    def feed(self, token_id: int) -> str:
        """Text that became certain with this id."""
        data = self._table.partial.get(token_id)
        if data is not None:
            return self._feed_bytes(data)
        text = self._table.texts[token_id] or self._table.specials.get(token_id)
        if not text:
            return ""
        # The text begins a character, so what was pending is never finished.
        return self.flush() + text if self._pending else text

    def feed_parts(
        self,
        parts: Mapping[int, bytes],
        token_ids: Sequence[int],
        texts: MutableSequence[str],
        lengths: MutableSequence[int],
        at: int,
    ) -> int:
        """``feed`` for the ids from ``at`` on as long as they are in ``parts``; where the first other one stands.

        Args:
            parts: the bytes of ids that are parts of characters.
            token_ids: the ids.
            texts: gets the text of each; ``""`` before.
            lengths: gets its length.
            at: where to begin.
        """
        count, pending = len(token_ids), self._pending
        while at < count and (data := parts.get(token_ids[at])) is not None:
            text, pending = _decode_lossy(pending + data if pending else data)
            if text:
                if self._from_prompt:
                    self._from_prompt, text = False, text.removeprefix(REPLACEMENT)
                texts[at], lengths[at] = text, len(text)
            at += 1
        self._pending = pending
        return at

    def _feed_bytes(self, data: bytes) -> str:
        text, self._pending = _decode_lossy(self._pending + data)
        if self._from_prompt and text:
            self._from_prompt = False
            # The prompt's unfinished character was not finished: its U+FFFD belongs to the prompt.
            text = text.removeprefix(REPLACEMENT)
        return text

    def flush(self) -> str:
        """What is left when no byte follows: U+FFFD for an unfinished character of the output."""
        text = REPLACEMENT if self._pending and not self._from_prompt else ""
        self._pending, self._from_prompt = b"", False
        return text

    def state(self) -> dict[str, Any]:
        """What the next push needs."""
        if not self._pending:
            return {}
        return {"b": self._pending.hex(), "q": 1} if self._from_prompt else {"b": self._pending.hex()}

    @staticmethod
    def check_state(tokenizer: ModelTokenizer, state: dict[str, Any]) -> str | None:
        """What is wrong with a state from outside, or None."""
        del tokenizer
        if not state:
            return None
        data = _read_hex(state.get("b"), limit=3)
        if not state.keys() <= {"b", "q"} or data is None:
            return "its fields are not those of a byte-level decoder"
        if not data or _valid_length(data) != 0:
            return "b must be the beginning of one UTF-8 character"
        return None if _is_one(state.get("q", 1)) else "q must be 1 or absent"


class PieceTail:
    """The decoders of SentencePiece vocabularies: tokens are text, except that byte tokens may stand among them.

    ``tokenizers`` turns a run of byte tokens into U+FFFD, one for each byte, unless the whole run is valid. So a run
    is held until it ends or is found invalid. That would hold a long text whose characters are all spelled in bytes
    to its end; so, and here only the text may differ from ``tokenizers``, a run that was valid for ``HELD_BYTES``
    bytes is trusted: its characters come out as they are completed, and only bytes that follow can turn out invalid.

    State: ``f``, 1 before the first token of a sequence; ``s``, how many characters may still be stripped from the
    start; ``b``, the bytes held, in hexadecimal; ``q``, how many of them are the prompt's; ``m``, 1 in a run that is
    trusted, 2 in one that is invalid.
    """

    __slots__ = ("_first", "_mode", "_prompt_bytes", "_run", "_strip", "_table", "_tokenizer")

    _HELD, _TRUSTED, _INVALID = 0, 1, 2

    def __init__(self, tokenizer: ModelTokenizer, state: dict[str, Any]) -> None:
        self._tokenizer = tokenizer.tokenizer
        self._table = tokenizer.table
        self._first = bool(state.get("f"))
        self._strip: int = state.get("s", 0)
        self._run = bytes.fromhex(state.get("b", ""))
        self._prompt_bytes: int = state.get("q", 0)
        self._mode: int = state.get("m", self._HELD)

    @classmethod
    def seed(cls, tokenizer: ModelTokenizer, forward: Iterable[int], backward: Iterable[int]) -> Self:
        """The decoder behind a prompt, given as its ids from the front and from the back."""
        shape = tokenizer.table.shape
        tail = cls(tokenizer, {"f": shape.first_differs, "s": shape.strip})
        for token_id in forward:
            tail.feed(token_id)
            if not tail._first and not tail._strip:
                break
        tail.flush()
        run = bytearray()
        for token_id in backward:
            data = tail._table.partial.get(token_id)
            if data is not None:
                run += data
            elif tail._text(token_id) is not None:
                break
        run.reverse()
        valid = _valid_length(run)
        if valid is None:
            tail._mode = cls._INVALID
        else:
            tail._run = bytes(run[valid:])
            tail._prompt_bytes = len(tail._run)
        return tail

    def _text(self, token_id: int) -> str | None:
        text = self._table.texts[token_id]
        return self._table.specials.get(token_id) if text is None else text

    @property
    def holds(self) -> bool:
        """Whether the next ordinary token's text is not simply its own."""
        return bool(self._first or self._strip or self._run or self._mode)

    def feed(self, token_id: int) -> str:
        """Text that became certain with this id."""
        text = self._text(token_id)
        if text is None:
            data = self._table.partial.get(token_id)
            if data is None:
                return ""
            self._first = False
            return self._strip_start(self._feed_bytes(data))
        if self._first:
            self._first = False
            text = self._table.shape.piece_text(self._tokenizer.id_to_token(token_id) or "", first=True)
        if not (self._run or self._mode or self._strip):
            return text
        return self._strip_start(self._end_run() + text)

    def _feed_bytes(self, data: bytes) -> str:
        if self._mode == self._INVALID:
            return REPLACEMENT * len(data)
        self._run += data
        valid = _valid_length(self._run)
        if valid is None:
            text = REPLACEMENT * (len(self._run) - self._prompt_bytes)
            self._run, self._prompt_bytes, self._mode = b"", 0, self._INVALID
            return text
        if self._mode == self._HELD and len(self._run) <= HELD_BYTES:
            return ""
        text, self._run = self._run[:valid].decode(), self._run[valid:]
        self._prompt_bytes = 0 if valid else self._prompt_bytes
        self._mode = self._TRUSTED
        return text

    def _end_run(self) -> str:
        run, prompt_bytes = self._run, self._prompt_bytes
        self._run, self._prompt_bytes, self._mode = b"", 0, self._HELD
        if not run or _valid_length(run) == len(run):
            return run.decode()
        return REPLACEMENT * (len(run) - prompt_bytes)

    def _strip_start(self, text: str) -> str:
        while self._strip and text:
            if text[0] != self._table.shape.strip_content:
                self._strip = 0
                break
            self._strip -= 1
            text = text[1:]
        return text

    def flush(self) -> str:
        """What is left when no token follows."""
        return self._strip_start(self._end_run())

    def state(self) -> dict[str, Any]:
        """What the next push needs."""
        fields = {
            "f": int(self._first),
            "s": self._strip,
            "b": self._run.hex(),
            "q": self._prompt_bytes,
            "m": self._mode,
        }
        return {key: value for key, value in fields.items() if value}

    @classmethod
    def check_state(cls, tokenizer: ModelTokenizer, state: dict[str, Any]) -> str | None:
        """What is wrong with a state from outside, or None."""
        shape = tokenizer.table.shape
        allowed = {"f"} if shape.first_differs else set()
        allowed |= {"s"} if shape.strip else set()
        allowed |= {"b", "q", "m"} if shape.byte_fallback else set()
        run = _read_hex(state.get("b", ""), limit=HELD_BYTES)
        if not state.keys() <= allowed or run is None:
            return "its fields are not those of this tokenizer's decoder"
        valid = _valid_length(run)
        if valid is None:
            return "b must be valid UTF-8, but for an unfinished character at its end"
        if not _is_one(state.get("f", 1)):
            return "f must be 1 or absent"
        for key, limit in (("s", shape.strip), ("q", min(len(run), 3)), ("m", cls._INVALID)):
            if key in state and not (type(state[key]) is int and 0 < state[key] <= limit):
                return f"{key} must be an integer from 1 to {limit}, or absent"
        mode = state.get("m", cls._HELD)
        if (mode == cls._TRUSTED and valid) or (mode == cls._INVALID and run):
            return "b holds bytes that cannot be held in this mode"
        return None


def _is_half_surrogate(data: bytes | bytearray) -> bool:
    """Whether these bytes begin a surrogate. Python waits for its third byte, but it can become no character."""
    return len(data) == 2 and data[0] == 0xED and data[1] >= 0xA0


@lru_cache(4096)  # emoji and rare scripts consist of the same few parts
def _decode_lossy(data: bytes) -> tuple[str, bytes]:
    """Text of ``data`` as Rust's ``from_utf8_lossy`` gives it, and the bytes of an unfinished character at its end."""
    text, used = utf_8_decode(data, "replace", False)
    if used == len(data):
        return text, b""
    rest = data[used:]
    return (text + 2 * REPLACEMENT, b"") if _is_half_surrogate(rest) else (text, rest)


def _valid_length(data: bytes | bytearray) -> int | None:
    """How many bytes of ``data`` are whole characters, if only an unfinished one follows; None if it is invalid."""
    try:
        used = utf_8_decode(data, "strict", False)[1]
    except UnicodeDecodeError:
        return None
    return None if _is_half_surrogate(data[used:]) else used


def _read_hex(value: object, *, limit: int) -> bytes | None:
    if not isinstance(value, str) or len(value) > 2 * limit:
        return None
    try:
        return bytes.fromhex(value)
    except ValueError:
        return None


def _is_one(value: object) -> bool:
    return type(value) is int and value == 1
