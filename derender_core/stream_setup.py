"""``StreamSetup``: what all streams of one request share, worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from derender_core.inputs import ENDING, ParseContext
from derender_core.pipeline import Pipeline
from derender_core.tokenizer import ModelTokenizer

__all__ = ["StreamSetup"]

KEPT_ENDINGS = 16
"""Of how many endings of prompts it is kept whether they open reasoning. Requests that are alike mostly have one."""


class StreamSetup:
    """A request, ready to be streamed. Holds nothing of a stream, so it serves all chunks of all choices.

    Asking the parsers what they need takes as long as parsing a token does; whoever sees many chunks of a request keeps
    this.

    Args:
        tokenizer: the model's tokenizer.
        pipeline: the parsers; without any, all text is ``Text``.
        context: what the parsers may know about the request.
        skip_special_tokens: whether special tokens that no parser asks for are dropped from the text.

    Raises:
        ParserError: a parser failed.
    """

    def __init__(
        self,
        tokenizer: ModelTokenizer,
        pipeline: Pipeline | None = None,
        context: ParseContext | None = None,
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.pipeline = pipeline or Pipeline()
        context = context or ParseContext()
        markers = tokenizer.added_token_ids(self.pipeline.special_tokens(context))
        if markers:
            context = replace(context, has_token_ids=True)
        self.detokenizer = tokenizer.detokenizer(markers if skip_special_tokens else None)
        self._context = self.pipeline.resume(context)
        self._opened: dict[tuple[bool, tuple[int, ...]], ParseContext] = {}
        self._resumed: dict[bool | None, ParseContext] = {}

    def open(self, prompt_token_ids: Sequence[int] | None) -> ParseContext:
        """The context of a stream that begins behind this prompt.

        Raises:
            ParserError: a parser failed.
        """
        if prompt_token_ids is None:
            return self.resume(self.pipeline.opens_reasoning(self._context, None))
        ending = len(prompt_token_ids) > ENDING, tuple(prompt_token_ids[-ENDING:])
        context = self._opened.get(ending)
        if context is None:
            prompt = self.tokenizer.prompt(prompt_token_ids)
            context = self.resume(self.pipeline.opens_reasoning(self._context, prompt))
            if prompt.read <= ENDING:  # so the answer is that for every prompt with this ending
                self._opened = {**self._opened, ending: context} if len(self._opened) < KEPT_ENDINGS else {}
        return context

    def resume(self, reasoning_open: bool | None) -> ParseContext:
        """The context of a stream of which is known where its output began."""
        context = self._resumed.get(reasoning_open)
        if context is None:
            context = self._resumed[reasoning_open] = replace(self._context, reasoning_open=reasoning_open)
        return context
