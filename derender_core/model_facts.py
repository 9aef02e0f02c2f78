"""What a model's files say about it, and how a parser's declaration recognises its models by that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

__all__ = ["ModelFacts", "ModelFamily"]


@dataclass(frozen=True)
class ModelFacts:
    """What the files of a model say.

    Args:
        template: its chat template; several are joined by newlines. ``""`` when there is none.
        tokens: the texts of its added tokens, special or not.
        config: the content of ``config.json``; ``{}`` when there is none.
    """

    template: str = ""
    tokens: frozenset[str] = frozenset()
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """``model_type`` of the configuration, and of the language model's that multimodal ones hold; lower case."""
        return tuple(dict.fromkeys(_types(self.config)))


def _types(config: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(found := config.get("model_type"), str):
        yield found.lower()
    for value in config.values():
        if isinstance(value, dict):
            yield from _types(value)


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that write a parser's format, and what tells them from all others. All that is given must hold.

    What a chat template shows of the format is the best evidence: it is what the model was trained on, whatever the
    model is called. Types are for what templates do not show.

    Args:
        names: of the models, as people know them. The documentation lists them.
        template: texts that the chat template has.
        absent: texts that it does not have: those of other families that share the others.
        tokens: added tokens that the model has.
        types: patterns of ``model_type``, such as ``qwen3*``; one of them fits.
        other_types: patterns of which none fits.
        untemplated: the model has no chat template.

    Raises:
        ValueError: nothing is given that a model could be recognised by.
    """

    names: tuple[str, ...]
    template: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    other_types: tuple[str, ...] = ()
    untemplated: bool = False

    def __post_init__(self) -> None:
        for name in ("names", "template", "absent", "tokens", "types", "other_types"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"ModelFamily: {name} must be a tuple of texts, not one text")
        if not (self.template or self.tokens or self.types):
            raise ValueError(f"ModelFamily {', '.join(self.names)}: give template, tokens or types")

    def recognizes(self, model: ModelFacts) -> str | None:
        """Why the model is of this family, or None when it is not."""
        if self.untemplated and model.template:
            return None
        if not all(text in model.template for text in self.template):
            return None
        if any(text in model.template for text in self.absent) or not model.tokens.issuperset(self.tokens):
            return None
        if any(fnmatchcase(kind, pattern) for kind in model.types for pattern in self.other_types):
            return None
        fitting = [kind for kind in model.types if any(fnmatchcase(kind, pattern) for pattern in self.types)]
        if self.types and not fitting:
            return None
        reasons = []
        if self.template:
            reasons.append(f"its chat template has {_listed(self.template)}")
        if self.tokens:
            reasons.append(f"its vocabulary has {_listed(self.tokens)}")
        if fitting:
            reasons.append(f"its model_type is {fitting[0]!r}")
        return " and ".join(reasons)


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(map(repr, texts))
