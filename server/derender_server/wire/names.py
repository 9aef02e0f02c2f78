"""Names that a JSON object gives twice.

JSON leaves open which of the values counts, and parsers differ: what a gateway in front has looked at might not be what
is done here. So the body of a request must give a name once, and so must every object of up to ``LOOKED_INTO_BYTES``
that is the value of one of its fields. Longer ones are engines' answers, and looking at them again takes as long as
decoding them. There, and deeper inside, in schemas and in free-form JSON, the last one counts, as in most parsers.

No JSON library of speed tells. But ``msgspec`` gives the members of an object with their text, one for each name; put
together again they must be the whole object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from derender_core.errors import InputError

__all__ = ["members_of"]

Members = Mapping[str, msgspec.Raw]

NAME = re.compile(rb'[\s,{]*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)
OPENING = ord("{")
LOOKED_INTO_BYTES = 32768
REMEMBERED_BYTES = range(512, 4096)
"""Sizes of objects that are remembered: a stream's request comes again with every chunk. What is shorter differs."""

SHORTEST = len('{"":0,"":0}')
END = re.compile(rb"\s*(?:,|\}\s*\Z)")

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def members_of(body: bytes) -> Members:
    """The fields of a body with their texts.

    Raises:
        MsgspecError: it is no JSON object; so are UnicodeError and RecursionError.
        InputError: a name is given twice, in the body or in an object that is a field of it.
    """
    members = _decoder.decode(body)
    twice = _twice(body, members)
    if twice is not None:
        raise _given_twice(twice)
    for name, raw in members.items():
        length = len(raw)
        if SHORTEST <= length <= LOOKED_INTO_BYTES and memoryview(raw)[0] == OPENING:
            inner = bytes(raw)
            twice = _known_twice(inner) if length in REMEMBERED_BYTES else _twice(inner, _decoder.decode(inner))
            if twice is not None:
                raise _given_twice(f"{name}.{twice}")
    return members


def _given_twice(path: str) -> InputError:
    return InputError(f"{path} is given twice", path)


@lru_cache(maxsize=256)
def _known_twice(body: bytes) -> str | None:
    # All chunks of a stream come with the same request.
    return _twice(body, _decoder.decode(body))


def _twice(body: bytes, members: Members) -> str | None:
    """The name that stands in an object twice, if one does."""
    # `"name":value,` for each: as many bytes as there are, when it is written without white space and escapes.
    if sum(map(len, members.values())) + sum(map(len, members)) + 4 * len(members) + 1 == len(body):
        return None
    # As Python's json writes it.
    if b"{%b}" % b", ".join([b'"%b": %b' % (name.encode(), raw) for name, raw in members.items()]) == body:
        return None
    return _search(body, members)


def _search(body: bytes, members: Members) -> str | None:
    """As ``_twice``, for any layout."""
    at = 0
    for name, raw in members.items():
        found = NAME.match(body, at)
        if found is None or msgspec.json.decode(found[1]) != name:
            break  # one of those before comes again
        value = bytes(raw)
        end = END.match(body, found.end() + len(value)) if body.startswith(value, found.end()) else None
        if end is None:
            return name  # its value comes later
        at = end.end()
    found = NAME.match(body, at)
    return str(msgspec.json.decode(found[1])) if found is not None else None
