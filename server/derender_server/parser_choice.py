"""The parsers of a model: those that were named, or with ``auto`` those that its files show to be right."""

from __future__ import annotations

import logging

from derender_core.auto_choice import AUTO, choose_parser
from derender_core.model_facts import ModelFacts
from derender_core.registry import Parser, Slot, load_parser
from derender_server.chat_template import load_templates
from derender_server.model import ServedModel

__all__ = ["choose_for", "load_named", "model_facts"]

log = logging.getLogger("derender")


def load_named(slot: Slot, name: str | None) -> Parser | None:
    """The parser of a name; None for no name, and for ``auto``, which needs the model.

    Raises:
        ParserLoadError: it is not installed or cannot be loaded.
    """
    return load_parser(slot, name) if name and name != AUTO else None


def choose_for(model: ServedModel, slot: Slot, name: str | None, chat_template: str | None = None) -> Parser | None:
    """The parser of a name; for ``auto`` the one that recognises the model, with the reason in the log.

    Args:
        model: the model.
        slot: "tool" or "reasoning".
        name: the parser's, ``auto`` or None.
        chat_template: what is used in place of the model's template: see ``load_templates``.

    Raises:
        ParserLoadError: it is not installed, cannot be loaded, or cannot be chosen for certain.
        ModelLoadError: a template file cannot be read.
    """
    if name != AUTO:
        return load_named(slot, name)
    parser, reason = choose_parser(slot, model_facts(model, chat_template))
    log.info("%s parser of %s: %s, as %s", slot, model.name, parser.name, reason)
    return parser


def model_facts(model: ServedModel, chat_template: str | None = None) -> ModelFacts:
    """What the files of a model say about it.

    Raises:
        ModelLoadError: a template file cannot be read.
    """
    templates = load_templates(model.directory, model.tokenizer.config, chat_template)
    return ModelFacts("\n".join(templates.values()), model.tokenizer.added_texts, model.config)
