"""The envelope of a stream's state: what a stateless server must know again at the next chunk.

It travels through the client, so it is hostile when it comes back: its size is checked first, then its signature (when
states are signed), its version, the parsers it was made under, and its fields. Keys are short, since it goes over the
wire with every chunk.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from derender_core.errors import StateError
from derender_core.stream import Stream

__all__ = ["Envelope", "ReplayForm", "StateCodec"]

VERSION = 1
PARAM = "stream_state"
SIGNATURE = "sig"
LARGEST = 2**53
LONGEST_ID = 1024
KEPT_ENVELOPES = 1024
LARGEST_KEPT = 4096
"""Envelopes that are kept for the next chunk, and the size in bytes up to which their states are."""

Names = tuple[str, str]


@dataclass(slots=True)
class Envelope:
    """Where a stream stands.

    Args:
        request_id: id of the response.
        created: when the stream began, in seconds since the epoch; the same for all its chunks.
        core: the state of ``derender_core.Stream``, as it came; None until the first chunk that has a choice.
        stream: that stream, once it runs; it is what is written.
        request: what that stream was opened for.
        role_sent: the assistant's role went out.
        prompt: tokens of the prompt, as far as known.
        tokens: output tokens so far, stop token included.
        offset: characters of text so far.
        calls: tool calls that were begun.
        reasoning: output tokens so far that were reasoning.
        pending: bytes of the character that the tokens so far leave unfinished.
        call_ids: ids that another server gave to calls of this stream, by call index.
        api: what the events of the Responses or the Messages API need to know; that API reads it.
    """

    request_id: str
    created: int
    core: dict[str, Any] | None = None
    stream: Stream | None = None
    request: object = None
    role_sent: bool = False
    prompt: int = 0
    tokens: int = 0
    offset: int = 0
    calls: int = 0
    reasoning: int = 0
    pending: bytes = b""
    call_ids: tuple[str, ...] = ()
    api: dict[str, Any] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a chunk that has a choice came."""
        return self.stream is not None or self.core is not None


@dataclass(frozen=True, slots=True)
class ReplayForm:
    """A stream begun on another server: all ids so far, and how many came with each chunk.

    Args:
        token_ids: the ids.
        chunk_lens: the lengths; they sum to the number of ids.
        role_sent: the assistant's role went out.
        call_ids: ids that were given to calls, by call index.
        calls_sent: how many calls the client knows of; None is all that the ids contain.
    """

    token_ids: Sequence[int]
    chunk_lens: Sequence[int]
    role_sent: bool
    call_ids: tuple[str, ...]
    calls_sent: int | None


@dataclass(frozen=True, slots=True)
class StateCodec:
    """Writes states, and reads those that clients bring back.

    Args:
        names: tool and reasoning parser that states are made under; ``""`` for none.
        max_bytes: states that are longer as JSON are refused unread.
        secret: signs states; None leaves them unsigned.
        wire: the API whose stream it is; ``""`` for completions and chat completions.
    """

    names: Names
    max_bytes: int
    secret: bytes | None = None
    wire: str = ""
    _kept: OrderedDict[bytes, Envelope] = field(default_factory=OrderedDict, init=False, repr=False, compare=False)

    def keep(self, envelope: Envelope) -> dict[str, Any]:
        """As ``write``. Should the state come back here soon, ``read`` need not make the envelope from it again.

        An envelope is given back once, because a stream changes as it goes on: a chunk that is sent again finds none.
        """
        state = self.write(envelope)
        key = msgspec.json.encode(state)
        if len(key) <= LARGEST_KEPT:
            self._kept[key] = envelope
            if len(self._kept) > KEPT_ENVELOPES:
                self._kept.popitem(last=False)
        return state

    def write(self, envelope: Envelope) -> dict[str, Any]:
        """The envelope as JSON-plain values. What has its default is left out."""
        state: dict[str, Any] = {"v": VERSION, "p": list(self.names), "i": envelope.request_id, "t": envelope.created}
        if self.wire:
            state["w"] = self.wire
        if envelope.stream is not None:
            state["s"] = envelope.stream.state
        elif envelope.core is not None:
            state["s"] = envelope.core
        if envelope.role_sent:
            state["r"] = True
        counts = (
            ("m", envelope.prompt),
            ("n", envelope.tokens),
            ("o", envelope.offset),
            ("c", envelope.calls),
            ("q", envelope.reasoning),
        )
        state |= {key: count for key, count in counts if count}
        if envelope.pending:
            state["b"] = envelope.pending.hex()
        if envelope.call_ids:
            state["k"] = list(envelope.call_ids)
        if envelope.api:
            state["a"] = envelope.api
        if self.secret is not None:
            state[SIGNATURE] = self._sign(state)
        return state

    def read(self, state: Mapping[str, Any]) -> Envelope | ReplayForm:
        """What a client brought back. ``core`` is not looked into; ``derender_core.Stream`` does that.

        Raises:
            StateError: it is too long, its signature is wrong, it is of another version or configuration, or a field
                is not what it must be.
        """
        try:
            key = msgspec.json.encode(state)
        except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError) as error:
            raise StateError(f"{PARAM} is not plain JSON: {error}", PARAM) from error
        if len(key) > self.max_bytes:
            raise StateError(f"{PARAM} is {len(key)} bytes long; at most {self.max_bytes} are allowed", PARAM)
        kept = self._kept.pop(key, None)
        if kept is not None:
            return kept
        if self.secret is not None:
            given = state.get(SIGNATURE)
            unsigned = {key: value for key, value in state.items() if key != SIGNATURE}
            if not isinstance(given, str) or not hmac.compare_digest(given.encode(), self._sign(unsigned).encode()):
                raise StateError(f"{PARAM} was not signed by this server (--state-secret)", f"{PARAM}.{SIGNATURE}")
        if "output_token_ids" in state:
            return _read_replay(state)
        return self._read_envelope(state)

    def _read_envelope(self, state: Mapping[str, Any]) -> Envelope:
        if state.get("v") != VERSION:
            raise StateError(
                f"{PARAM} is not a state that this server made: its version is {state.get('v')!r}, not {VERSION}; "
                "send back the stream_state of the chunk before, unchanged",
                f"{PARAM}.v",
            )
        if state.get("p") != list(self.names):
            raise StateError(
                f"{PARAM} was made under other parsers (tool, reasoning): {state.get('p')!r}, here they are "
                f"{list(self.names)!r}",
                f"{PARAM}.p",
            )
        if state.get("w", "") != self.wire:
            raise StateError(
                f"{PARAM} is of a stream of another API: {state.get('w', '')!r}, not {self.wire!r}", f"{PARAM}.w"
            )
        core = state.get("s")
        if not isinstance(core, dict) and (core is not None or state.get("n")):
            raise _wrong("s", "an object")
        request_id = state.get("i")
        if not isinstance(request_id, str) or len(request_id) > LONGEST_ID:
            raise _wrong("i", "a short string")
        return Envelope(
            request_id=request_id,
            created=_count(state, "t"),
            core=core,
            role_sent=_flag(state, "r"),
            prompt=_count(state, "m"),
            tokens=_count(state, "n"),
            offset=_count(state, "o"),
            calls=_count(state, "c"),
            reasoning=_count(state, "q"),
            pending=_bytes(state, "b"),
            call_ids=_ids(state, "k"),
            api=_object(state, "a"),
        )

    def _sign(self, state: Mapping[str, Any]) -> str:
        canonical = msgspec.json.encode(state, order="sorted")
        return hmac.new(self.secret or b"", canonical, hashlib.sha256).hexdigest()


def _read_replay(state: Mapping[str, Any]) -> ReplayForm:
    token_ids = _ints(state, "output_token_ids")
    lens = _ints(state, "output_chunk_lens")
    if min(lens, default=1) < 1:
        raise _wrong("output_chunk_lens", "a list of positive integers")
    if sum(lens) != len(token_ids):
        raise _wrong("output_chunk_lens", f"lengths that sum to the {len(token_ids)} ids, not to {sum(lens)}")
    streamed = state.get("tools_streamed")
    flags = streamed if isinstance(streamed, list) else [streamed]
    if not all(flag is None or isinstance(flag, bool) for flag in flags):
        raise _wrong("tools_streamed", "true or false")
    call_ids = _ids(state, "last_tool_call_ids")
    if isinstance(streamed, list):
        calls_sent: int | None = max(len(call_ids), streamed.count(True))
    else:
        calls_sent = len(call_ids) if call_ids or streamed is False else None
    return ReplayForm(token_ids, lens, _flag(state, "role_sent"), call_ids, calls_sent)


def _ints(state: Mapping[str, Any], key: str) -> list[int]:
    value = state.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise _wrong(key, "a list of integers")
    return value


def _count(state: Mapping[str, Any], key: str) -> int:
    value = state.get(key, 0)
    if type(value) is not int or not 0 <= value < LARGEST:
        raise _wrong(key, "a count")
    return value


def _flag(state: Mapping[str, Any], key: str) -> bool:
    value = state.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong(key, "true or false")
    return value is True


def _object(state: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = state.get(key)
    if value is not None and not isinstance(value, dict):
        raise _wrong(key, "an object")
    return value


def _bytes(state: Mapping[str, Any], key: str) -> bytes:
    value = state.get(key, "")
    try:
        if isinstance(value, str) and len(value) <= 6:  # a UTF-8 character lacks its last byte at most three bytes in
            return bytes.fromhex(value)
    except ValueError:
        pass
    raise _wrong(key, "the hexadecimal bytes of an unfinished character")


def _ids(state: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = state.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) and len(item) <= LONGEST_ID for item in value):
        raise _wrong(key, "a list of tool call ids")
    return tuple(value)


def _wrong(key: str, expected: str) -> StateError:
    return StateError(f"{PARAM}.{key} must be {expected}", f"{PARAM}.{key}")
