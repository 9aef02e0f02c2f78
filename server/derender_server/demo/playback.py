"""From the script's token ids to what an engine reports: stop rules, log probabilities, whole answers and chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Odds", "Output", "StopRules", "play", "response_choice", "stream_choices"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends an answer.

    Args:
        max_tokens: the most tokens to generate, the end token included. At least 1.
        min_tokens: neither end token nor stop token comes before so many.
        eos_token_ids: end tokens; the first is the one that the script ends with.
        stop_token_ids: further ids that end it.
        ignore_eos: end tokens do not end it.
    """

    max_tokens: int
    min_tokens: int = 0
    eos_token_ids: tuple[int, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """One generated sequence; the token that ended it is its last."""

    index: int
    token_ids: list[int]
    finish_reason: str
    stop_reason: int | str | None


@dataclass(frozen=True, slots=True)
class Odds:
    """Made-up log probabilities, the same for the same token at the same place.

    A token has 60 to 99 %, each alternative half of what is left.

    Args:
        top: entries to report for each token, the token itself first.
        vocab_size: alternatives are below it.
    """

    top: int
    vocab_size: int

    def entry(self, position: int, token_id: int) -> JsonObject:
        """The entry of a token, its alternatives included, with integer ids."""
        chosen = 0.6 + 0.39 * ((token_id * 7919 + position * 104729) % 1000) / 1000
        entries = [{"token_id": token_id, "logprob": math.log(chosen), "rank": 1}]
        for rank in range(2, self.top + 1):
            logprob = math.log((1 - chosen) * 0.5 ** (rank - 1))
            entries.append({"token_id": (token_id + 31 * rank) % self.vocab_size, "logprob": logprob, "rank": rank})
        return {**entries[0], "top_logprobs": entries[: self.top]}


def play(index: int, script: Sequence[int], rules: StopRules) -> Output:
    """Generate one sequence.

    Args:
        index: of the choice.
        script: what it says, without an end token. When it may not end there, it begins again.
        rules: what ends it.
    """
    token_ids: list[int] = []
    finish_reason, stop_reason = "length", None
    end = rules.eos_token_ids[:1]
    speech = [*script, *end]
    stops = rules.stop_token_ids.union(() if rules.ignore_eos else rules.eos_token_ids)
    can_wait = not stops.issuperset(speech)
    for token_id in itertools.cycle(speech):
        if token_id in stops and can_wait and len(token_ids) < rules.min_tokens:
            continue  # an engine masks it; a script leaves it out
        token_ids.append(token_id)
        if token_id in stops:
            finish_reason = "stop"
            stop_reason = token_id if token_id not in end or rules.ignore_eos else None
            break
        if len(token_ids) >= rules.max_tokens:
            break
    return Output(index, token_ids, finish_reason, stop_reason)


def response_choice(output: Output, odds: Odds | None = None) -> JsonObject:
    """The choice of a ``GenerateResponse``, with log probabilities when ``odds`` are given."""
    return _choice(output, 0, len(output.token_ids), odds)


def stream_choices(outputs: Sequence[Output], sizes: Iterator[int], odds: Odds | None = None) -> Iterator[JsonObject]:
    """The choices of successive ``GenerateStreamResponse`` chunks, the outputs taking turns.

    Args:
        outputs: complete.
        sizes: tokens of successive chunks.
        odds: makes log probabilities, if they are wanted.
    """
    at = [0] * len(outputs)
    going = list(range(len(outputs)))
    while going:
        for which in going:
            start = at[which]
            at[which] += next(sizes)
            yield _choice(outputs[which], start, at[which], odds)
        going = [which for which in going if at[which] < len(outputs[which].token_ids)]


def _choice(output: Output, start: int, end: int, odds: Odds | None) -> JsonObject:
    token_ids = output.token_ids[start:end]
    last = end >= len(output.token_ids)
    entries = [odds.entry(at, token_id) for at, token_id in enumerate(token_ids, start)] if odds else None
    return {
        "index": output.index,
        "token_ids": token_ids,
        "finish_reason": output.finish_reason if last else None,
        "stop_reason": output.stop_reason if last else None,
        "logprobs": None if entries is None else {"content": entries},
    }
