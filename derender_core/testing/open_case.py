"""``open_case``: a case with its parsers and its tokenizer, ready to be run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from derender_core.detokenize import Detokenizer
from derender_core.errors import TokenizerLoadError
from derender_core.events import Event, merge_events
from derender_core.inputs import Delta, ParseContext
from derender_core.pipeline import Pipeline
from derender_core.testing.cases import Case, CaseError
from derender_core.testing.cuts import Cut, all_cuts, cut_at
from derender_core.testing.trace import Trace, feed
from derender_core.tokenizer import ModelTokenizer

__all__ = ["MODES", "Mode", "OpenCase", "open_case"]

Mode = Literal["whole", "arguments"]
MODES: tuple[Mode, ...] = ("whole", "arguments")


@dataclass(frozen=True)
class OpenCase:
    """A case that can be run.

    Args:
        case: the case.
        pipeline: the parsers.
        output: the whole output as the parsers see it, final.
        request: what the parsers may know, prompt included, with calls held until they are whole.
        tokenizer: to cut at its tokens, if there is one.
        detokenizer: of a case that is given as token ids.
    """

    case: Case
    pipeline: Pipeline
    output: Delta
    request: ParseContext
    tokenizer: ModelTokenizer | None = None
    detokenizer: Detokenizer | None = None

    def extract(self) -> list[Event]:
        """The events of the whole output, parsed at once, neighbours of one kind joined.

        Raises:
            ParserError: a parser failed.
        """
        return merge_events(self.pipeline.extract(self.output, self.request))

    def run(self, cut: Cut, *, mode: Mode = "whole", round_trip: bool = True) -> Trace:
        """Stream the output in these pieces.

        Raises:
            Failed: the parser raised, changed a state, or made one that JSON changes.
        """
        return feed(self.pipeline, cut, replace(self.request, stream_tool_calls=mode), round_trip=round_trip)

    def cuts(self, *, seeds: int = 3, pairs: bool = False) -> list[Cut]:
        """All cuts of the output: of its text, of its token ids if it has them, and its own exact one."""
        markers = (*self.pipeline.special_tokens(self.request), *self.request.tool_call_openers)
        tokenizer = None if self.detokenizer else self.tokenizer
        cuts = list(all_cuts(self.output, markers=markers, tokenizer=tokenizer, seeds=seeds, pairs=pairs))
        if self.detokenizer is not None:
            cuts += self._id_cuts(self.detokenizer, seeds)
        if self.case.deltas is not None:
            ends = [sum(map(len, self.case.deltas[:count])) for count in range(1, len(self.case.deltas))]
            cuts.append(cut_at(self.output, ends, "as the case says"))
        return cuts

    def _id_cuts(self, detokenizer: Detokenizer, seeds: int) -> list[Cut]:
        ids, start = self.case.token_ids or (), self._prompt_ids()
        cuts = [_cut_ids(self.case, detokenizer, start, [1] * len(ids), "token")]
        for seed in range(seeds):
            rng = random.Random(seed)
            sizes = [rng.randint(1, 5) for _ in range(len(ids) // 5)]
            cuts.append(_cut_ids(self.case, detokenizer, start, sizes, f"groups of ids, seed {seed}"))
        return cuts

    def _prompt_ids(self) -> list[int] | None:
        return _prompt_ids(self.case, self.tokenizer) if self.tokenizer is not None else None


def open_case(case: Case, pipeline: Pipeline | None = None, *, tokenizer: ModelTokenizer | None = None) -> OpenCase:
    """Make a case ready.

    Args:
        case: the case.
        pipeline: the parsers; the installed ones that the case names, when left out.
        tokenizer: for cases of token ids whose tokenizer does not lie beside the corpus; else, to cut at its tokens.

    Raises:
        CaseError: token ids without their tokenizer, or with another one.
        ParserLoadError: a parser that the case names cannot be loaded.
    """
    pipeline = pipeline or case.pipeline()
    request = case.context(pipeline)
    if case.token_ids is None:
        return OpenCase(case, pipeline, case.whole, request, tokenizer)
    own = _tokenizer_of(case, tokenizer)
    _check_text(case, own)
    visible = own.added_token_ids(pipeline.special_tokens(request))
    detokenizer = own.detokenizer(visible)
    request = replace(request, has_token_ids=bool(visible))
    return OpenCase(case, pipeline, _whole(case, detokenizer, _prompt_ids(case, own)), request, own, detokenizer)


def _tokenizer_of(case: Case, given: ModelTokenizer | None) -> ModelTokenizer:
    """The tokenizer beside the corpus, or the given one."""
    assert case.tokenizer is not None
    beside = case.file.parent / case.tokenizer if case.file is not None else Path(case.tokenizer)
    if (beside / "tokenizer.json").is_file():
        return _load(beside)
    if given is None:
        raise CaseError(
            f"{case}: it holds token ids of the tokenizer {case.tokenizer!r}, which is not beside the corpus; "
            "give its directory (--tokenizer DIR)"
        )
    return given


@cache
def _load(directory: Path) -> ModelTokenizer:
    try:
        return ModelTokenizer.load(directory)
    except TokenizerLoadError as error:
        raise CaseError(str(error)) from error


def _check_text(case: Case, tokenizer: ModelTokenizer) -> None:
    """With another tokenizer the ids would be another output, silently."""
    ids = case.token_ids or ()
    wrong = next((token for token in ids if not 0 <= token < tokenizer.size), None)
    if wrong is not None:
        raise CaseError(f"{case}: token id {wrong} is none of this tokenizer, whose ids end at {tokenizer.size - 1}")
    text = tokenizer.decode(ids, skip_special_tokens=False)
    if case.output is not None and text.strip() != case.text.strip():
        raise CaseError(
            f"{case}: this tokenizer reads token_ids as {text!r}, but output is {case.text!r}; "
            f"give the tokenizer {case.tokenizer!r}"
        )


def _prompt_ids(case: Case, tokenizer: ModelTokenizer) -> list[int] | None:
    return tokenizer.encode(case.prompt) if case.prompt else None


def _whole(case: Case, detokenizer: Detokenizer, prompt: Sequence[int] | None) -> Delta:
    decoded, _ = detokenizer.push(detokenizer.start(prompt), case.token_ids or (), final=True)
    return Delta(decoded.text, decoded.specials, final=True, finish_reason=case.finish_reason)


def _cut_ids(
    case: Case, detokenizer: Detokenizer, prompt: Sequence[int] | None, sizes: Iterable[int], name: str
) -> Cut:
    """The deltas that a stream of these token ids gives, the end last and alone."""
    ids = case.token_ids or ()
    state = detokenizer.start(prompt)
    deltas: list[Delta] = []
    at = 0
    for size in sizes:
        decoded, state = detokenizer.push(state, ids[at : at + size])
        at += size
        if decoded.text:
            deltas.append(Delta(decoded.text, decoded.specials))
    decoded, _ = detokenizer.push(state, ids[at:], final=True)
    return Cut(name, (*deltas, Delta(decoded.text, decoded.specials, final=True, finish_reason=case.finish_reason)))
