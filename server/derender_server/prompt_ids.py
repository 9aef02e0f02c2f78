"""Prompts as token ids: encoded, cut to length, checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, cast

from derender_core.errors import InputError
from derender_core.tokenizer import ModelTokenizer
from derender_server.limits import Limits
from derender_server.model import ServedModel
from derender_server.sampling import check_prompt_fits, prompt_room
from derender_server.wire.requests import ChatCompletionRequest, CompletionRequest

__all__ = ["PromptIds", "completion_prompt_ids", "encode_text", "prompts_of", "text_offsets", "truncate"]


class PromptIds(NamedTuple):
    """A prompt.

    Args:
        token_ids: its ids.
        offsets: for each id, where in the text it stands: first character and the one after the last. None when not
            asked for, or when the prompt came as ids.
    """

    token_ids: list[int]
    offsets: list[tuple[int, int]] | None


def encode_text(
    tokenizer: ModelTokenizer, text: str, *, add_special_tokens: bool, param: str, with_offsets: bool = False
) -> PromptIds:
    """Encode a text. Special tokens written out in it become their ids.

    Raises:
        InputError: the text is not valid Unicode.
    """
    try:
        encoding = tokenizer.tokenizer.encode(text, add_special_tokens=add_special_tokens)
    except (TypeError, UnicodeError) as error:  # JSON can spell half a surrogate pair; tokenizers cannot take it
        raise InputError(f"{param}: the text is not valid Unicode: {error}", param) from error
    return PromptIds(encoding.ids, encoding.offsets if with_offsets else None)


def text_offsets(tokenizer: ModelTokenizer, token_ids: Sequence[int]) -> list[tuple[int, int]]:
    """For each id, where its characters stand in the decoded text; where several make one, it is the last one's."""
    detokenizer = tokenizer.detokenizer(None)
    lengths = detokenizer.push(detokenizer.start(None), token_ids)[0].lengths
    ends = list(accumulate(lengths))
    return [(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def truncate(prompt: PromptIds, request: ChatCompletionRequest | CompletionRequest, model: ServedModel) -> PromptIds:
    """Keep the end of the prompt, as ``truncate_prompt_tokens`` says."""
    keep = request.truncate_prompt_tokens
    if keep is None:
        return prompt
    start = max(len(prompt.token_ids) - (prompt_room(request, model) if keep < 0 else keep), 0)
    return PromptIds(prompt.token_ids[start:], prompt.offsets[start:] if prompt.offsets else None)


def prompts_of(request: CompletionRequest) -> list[str | list[int]]:
    """The prompts of a request, whichever of the four forms it has."""
    prompt = request.prompt
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return [prompt]
    return cast("list[str | list[int]]", prompt)


def completion_prompt_ids(
    request: CompletionRequest, prompt: str | list[int], model: ServedModel, limits: Limits, param: str
) -> PromptIds:
    """One prompt of a text completion.

    Raises:
        InputError: it is empty, too long, or not valid Unicode.
        TokenIdError: an id that is not the model's.
    """
    if isinstance(prompt, str):
        given = encode_text(
            model.tokenizer,
            prompt,
            add_special_tokens=request.add_special_tokens,
            param=param,
            with_offsets=request.return_token_offsets,
        )
    else:
        given = PromptIds(prompt, None)
    kept = truncate(given, request, model)
    if not kept.token_ids:
        raise InputError(f"{param} has no tokens; give some text or token ids", param)
    check_prompt_fits(len(kept.token_ids), model, param)
    limits.check_ids(kept.token_ids, param)
    return kept
