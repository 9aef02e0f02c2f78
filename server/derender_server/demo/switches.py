"""Switches of the scripted engine: what it says, how fast, and how it fails.

They are given for the whole engine, and over it for a request: ``sampling_params.extra_args.demo_engine``, which is
what clients of OpenAI's API send as ``vllm_xargs``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from derender_core import InputError
from derender_server.wire.decode import dotted_path

__all__ = ["ARGUMENT", "UNTOLD", "Fault", "Switches", "switches_for"]

ARGUMENT = "demo_engine"
PARAM = f"sampling_params.extra_args.{ARGUMENT}"
LONGEST_DELAY = 3600

Fault = Literal["refuse", "status", "hang", "drop", "stall", "error", "garbage", "not_sse", "unfinished", "no_done"]
"""How an engine fails.

``refuse`` closes the connection without an answer; ``status`` answers with an error; ``hang`` never answers;
``not_sse`` answers 200 with a page of HTML. The others let ``fault_after`` chunks go first: ``drop`` closes the
connection, ``stall`` sends no more, ``error`` sends an error event, ``garbage`` sends an event that is not a chunk,
``unfinished`` ends the stream properly before the choices have finished. ``no_done`` leaves ``[DONE]`` out.
"""


class Switches(BaseModel):
    """What an engine was told. The field descriptions are the flags' help."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    token_delay: float = Field(
        default=0, ge=0, le=LONGEST_DELAY, allow_inf_nan=False, description="Seconds for each token."
    )
    first_token_delay: float = Field(
        default=0, ge=0, le=LONGEST_DELAY, allow_inf_nan=False, description="Seconds more before the first token."
    )
    tokens_per_chunk: int = Field(default=1, ge=1, description="Tokens in each chunk of a stream.")
    max_tokens_per_chunk: int | None = Field(
        default=None, ge=1, description="Chunks have random sizes, from --tokens-per-chunk up to this."
    )
    seed: int = Field(default=0, description="Of the random sizes.")
    comments: bool = Field(default=False, description="Send a comment before each event, as keep-alive does.")
    text: str | list[str] | None = Field(
        default=None, description="What it says instead of its script; a list is by choice."
    )
    token_ids: list[int] | list[list[int]] | None = Field(
        default=None, description="The ids that it says, exactly; lists in a list are by choice."
    )
    finish_reason: str | None = Field(default=None, description="Reported unless max_tokens cut the output.")
    stop_reason: int | str | None = Field(default=None, description="Reported with finish_reason.")
    fault: Fault | None = Field(default=None, description="How it fails.")
    fault_after: int = Field(default=0, ge=0, description="Chunks that go before the fault.")
    fault_times: int | None = Field(default=None, ge=1, description="Only the first so many requests fail.")
    fault_status: int = Field(default=500, ge=400, le=599, description="Of --fault status.")
    garbage: str = Field(default='{"choices": [{', description="The event of --fault garbage.")
    health_status: int = Field(default=200, ge=200, le=599, description="What /health answers.")
    abort_status: int = Field(
        default=200, ge=200, le=599, description="What /abort_requests answers; it aborts with 200."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Switches:
        if self.max_tokens_per_chunk is not None and self.max_tokens_per_chunk < self.tokens_per_chunk:
            raise ValueError("max_tokens_per_chunk must not be below tokens_per_chunk")
        return self

    def sizes(self) -> Iterator[int]:
        """Tokens of successive chunks, without end."""
        low, high = self.tokens_per_chunk, self.max_tokens_per_chunk
        if high is None:
            return itertools.repeat(low)
        numbers = random.Random(self.seed)
        return (numbers.randint(low, high) for _ in itertools.count())

    def text_of(self, index: int) -> str | None:
        """What a choice says, if it is told."""
        return self.text[index % len(self.text)] if isinstance(self.text, list) and self.text else self._only_text

    def ids_of(self, index: int) -> list[int] | None:
        """The ids that a choice says exactly, if they are told."""
        if not self.token_ids:
            return None
        first = self.token_ids[0]
        if isinstance(first, int):
            return [one for one in self.token_ids if isinstance(one, int)]
        lists = [one for one in self.token_ids if isinstance(one, list)]
        return lists[index % len(lists)]

    @property
    def _only_text(self) -> str | None:
        return self.text if isinstance(self.text, str) else None


UNTOLD = Switches()
"""The script as it is, at once."""


def switches_for(extra_args: dict[str, Any] | None, engine: Switches) -> Switches:
    """The switches of a request: its own, and the engine's for what it leaves open.

    Raises:
        InputError: a switch is unknown or wrong; names it.
    """
    own = (extra_args or {}).get(ARGUMENT)
    if own is None:
        return engine
    if not isinstance(own, dict):
        raise InputError(f"{PARAM} must be an object", PARAM)
    try:
        return Switches.model_validate({**engine.model_dump(exclude_unset=True), **own})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = dotted_path(first["loc"], own) or dotted_path(first["loc"][:1], own, missing=True)
        where = f"{PARAM}.{path}" if path else PARAM
        raise InputError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}", where) from error
