"""Log probabilities: from the engine's ids to the strings and bytes that clients read."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from derender_core.errors import InputError
from derender_core.tokenizer import ModelTokenizer
from derender_server.wire.derender import TokenLogprob, TopLogprob

__all__ = ["TokenStrings", "chat_logprobs", "completion_logprobs", "unfinished"]

encoder = msgspec.json.Encoder()

PLACEHOLDER = "token_id:"
LOWEST = -9999.0
"""Stands for minus infinity, which JSON cannot say."""
MAX_CACHED = 65536


class TokenStrings:
    """Strings and bytes of tokens in their place, where a character may be spread over several of them.

    Args:
        tokenizer: the model's tokenizer.
        vocab_size: ids outside the model's vocabulary are refused.
    """

    def __init__(self, tokenizer: ModelTokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._cache: dict[int, tuple[str | None, list[int], bytes]] = {}

    def of(self, token_id: int, pending: bytes) -> tuple[str, list[int]]:
        """The string and the bytes of a token that follows the unfinished character ``pending``.

        The string is ``""`` for a token that leaves a character unfinished, and the whole character for the one that
        finishes it. The bytes are the token's own.
        """
        text, values, raw = self._entry(token_id)
        if text is not None and not pending:
            return text, values
        return _decode(pending, raw)[0], values

    def token_id(self, entry: TopLogprob) -> int | None:
        """The id of an entry, or None when the entry carries text that is passed through.

        Raises:
            InputError: neither an id nor a token, or an id out of range.
        """
        token_id = entry.token_id
        if token_id is None:
            if entry.token is None:
                raise InputError('an entry needs `token_id`, or `token` such as "token_id:123"')
            digits = entry.token.removeprefix(PLACEHOLDER)
            if digits == entry.token or not (digits.isascii() and digits.isdigit() and len(digits) < 20):
                return None
            token_id = int(digits)
        if not 0 <= token_id < self._vocab_size:
            raise InputError(
                f"token id {token_id} is out of range; the model's ids go from 0 to {self._vocab_size - 1}"
            )
        return token_id

    def show(self, entry: TopLogprob, pending: bytes) -> dict[str, Any]:
        """An entry as clients read it, after the unfinished character ``pending``.

        Raises:
            InputError: as ``token_id``.
        """
        token_id = self.token_id(entry)
        logprob = max(entry.logprob, LOWEST)
        if token_id is None:
            given = entry.bytes if entry.bytes is not None else list(str(entry.token).encode())
            return {"token": entry.token, "logprob": logprob, "bytes": given}
        text, values = self.of(token_id, pending)
        return {"token": text, "logprob": logprob, "bytes": values}

    def after(self, entry: TopLogprob, pending: bytes) -> bytes:
        """The unfinished character once the token of ``entry`` has followed ``pending``."""
        token_id = self.token_id(entry)
        if token_id is None:
            return b""
        text, _, raw = self._entry(token_id)
        return b"" if text is not None and not pending else _decode(pending, raw)[1]

    def _entry(self, token_id: int) -> tuple[str | None, list[int], bytes]:
        found = self._cache.get(token_id)
        if found is None:
            raw = self._tokenizer.token_bytes(token_id)
            try:
                text: str | None = raw.decode()
            except UnicodeDecodeError:
                text = None
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            found = self._cache[token_id] = (text, list(raw), raw)
        return found


def chat_logprobs(
    content: Sequence[TokenLogprob] | None,
    strings: TokenStrings,
    *,
    pending: bytes = b"",
    top: int | None = None,
    param: str = "logprobs",
    as_json: bool = False,
) -> tuple[dict[str, Any] | None, bytes]:
    """The ``logprobs`` of a chat choice.

    Args:
        content: the engine's entries.
        strings: the model's tokens.
        pending: the character that the chunk before left unfinished.
        top: how many alternatives the request asked for; None is all that there are.
        param: dotted path of the engine's logprobs, for errors.
        as_json: give each entry as ``msgspec.Raw``. Where there are a million alternatives, dicts of them would take
            a tenth of the memory limit, and the garbage collector a tenth of a second to look at, again and again.

    Returns:
        The body, None when the engine gave none; and the unfinished character at its end.

    Raises:
        InputError: an entry that names no token.
    """
    if content is None:
        return None, pending
    entries: list[Any] = []
    with _located(param, entries):
        for entry in content:
            shown = strings.show(entry, pending)
            shown["top_logprobs"] = [strings.show(other, pending) for other in (entry.top_logprobs or ())[:top]]
            entries.append(msgspec.Raw(encoder.encode(shown)) if as_json else shown)
            pending = strings.after(entry, pending)
    return {"content": entries}, pending


def completion_logprobs(
    content: Sequence[TokenLogprob] | None,
    strings: TokenStrings,
    lengths: Sequence[int],
    *,
    offset: int = 0,
    pending: bytes = b"",
    top: int | None = None,
    param: str = "logprobs",
) -> tuple[dict[str, Any] | None, bytes]:
    """The ``logprobs`` of a text completion: parallel lists.

    Args:
        content: the engine's entries.
        strings: the model's tokens.
        lengths: characters that each token gave; tokens beyond its end gave none.
        offset: where in the whole text this chunk begins, in characters.
        pending: the character that the chunk before left unfinished.
        top: how many alternatives the request asked for; None is all that there are.
        param: dotted path of the engine's logprobs, for errors.

    Returns:
        The body, None when the engine gave none; and the unfinished character at its end.

    Raises:
        InputError: an entry that names no token.
    """
    if content is None:
        return None, pending
    offsets: list[int] = []
    tokens, values, alternatives = [], [], []
    with _located(param, offsets):
        for at, entry in enumerate(content):
            shown = strings.show(entry, pending)
            others = [strings.show(other, pending) for other in (entry.top_logprobs or ())[:top]]
            tokens.append(shown["token"])
            values.append(shown["logprob"])
            # The sampled token is always among them. Of two that look alike, the likelier one is kept.
            alternatives.append({other["token"]: other["logprob"] for other in (shown, *reversed(others))})
            offsets.append(offset)
            offset += lengths[at] if at < len(lengths) else 0
            pending = strings.after(entry, pending)
    body = {"text_offset": offsets, "token_logprobs": values, "tokens": tokens, "top_logprobs": alternatives}
    return body, pending


@contextmanager
def _located(param: str, done: Sequence[object]) -> Iterator[None]:
    """Say at which entry an error happened: the one behind those that are done."""
    try:
        yield
    except InputError as error:
        where = f"{param}.content.{len(done)}"
        raise InputError(f"{where}: {error}", where) from error


def unfinished(raw: bytes) -> bytes:
    """The beginning of a character at the end of ``raw`` that lacks its rest."""
    return _decode(b"", raw)[1]


def _decode(pending: bytes, raw: bytes) -> tuple[str, bytes]:
    """The characters that ``raw`` finishes, and the unfinished one behind them. Bytes that are no UTF-8: U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(pending + raw)
    return text, decoder.getstate()[0]
