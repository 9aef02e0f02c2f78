"""What the translations of Responses and Messages requests to chat requests have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_server.wire.derender import TextRequestView
from derender_server.wire.sampling_fields import SamplingFields

__all__ = ["content_parts", "renamed", "sampling_fields", "text_fields", "thinking_switches"]


def sampling_fields(request: SamplingFields) -> dict[str, Any]:
    """The fields that chat requests have too, as far as they were given."""
    return {
        name: getattr(request, name) for name in sorted(request.model_fields_set & SamplingFields.model_fields.keys())
    }


def text_fields(view: TextRequestView) -> dict[str, Any]:
    """The fields that change how ids become text."""
    return {name: getattr(view, name) for name in TextRequestView.model_fields}


def thinking_switches(on: bool) -> dict[str, bool]:
    """Template variables that turn thinking on or off, under both names that chat templates know."""
    return {"enable_thinking": on, "thinking": on}


def content_parts(texts: Sequence[str]) -> str | list[dict[str, str]]:
    """Chat content from the texts of parts: one stays a string, as most clients would send it."""
    if len(texts) == 1:
        return texts[0]
    return [{"type": "text", "text": text} for text in texts]


def renamed(error: InputError, names: Mapping[str, str]) -> InputError:
    """An error of the chat request that was made from a request, in the words of the latter.

    Args:
        error: names a field of the chat request.
        names: the client's name of each field that was translated. What stands below such a field is left out, because
            it has no counterpart of the same shape.
    """
    field = (error.param or "").split(".")[0]
    if field not in names:
        return error
    return InputError(re.sub(rf"\b{field}\b(\.\w+)*", names[field], str(error)), names[field])
