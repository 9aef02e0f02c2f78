"""What the bridge takes from vLLM, wherever the installed version keeps it. No other module imports vLLM."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["BridgeError", "manager", "parser_class", "parser_names", "request_class", "tokenizer"]

# Newest first. vLLM moved its parsers out of the entry points' package, and split its protocol by endpoint.
_MANAGERS: Mapping[str, Sequence[str]] = {
    "tool": ("vllm.tool_parsers:ToolParserManager", "vllm.entrypoints.openai.tool_parsers:ToolParserManager"),
    "reasoning": ("vllm.reasoning:ReasoningParserManager",),
}
_REQUEST = (
    "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest",
    "vllm.entrypoints.openai.protocol:ChatCompletionRequest",
)
_GET_TOKENIZER = ("vllm.tokenizers:get_tokenizer", "vllm.transformers_utils.tokenizer:get_tokenizer")

TOKENIZER_VARIABLES = ("DERENDER_VLLM_TOKENIZER", "DERENDER_MODEL")
PLUGIN_VARIABLES = {
    "tool": "DERENDER_VLLM_TOOL_PARSER_PLUGIN",
    "reasoning": "DERENDER_VLLM_REASONING_PARSER_PLUGIN",
}


class BridgeError(RuntimeError):
    """The bridge is not set up. The message says what to do."""


def manager(slot: str) -> Any:
    """vLLM's registry of the parsers of a slot, with the configured plugin files loaded into it."""
    found = _first(_MANAGERS[slot])
    _import_plugin_files(slot, found, os.environ.get(PLUGIN_VARIABLES[slot], ""))
    return found


@cache
def _import_plugin_files(slot: str, registry: Any, paths: str) -> None:
    """Load files as vLLM does for ``--tool-parser-plugin`` and ``--reasoning-parser-plugin``. Each set once.

    Args:
        slot: "tool" or "reasoning".
        registry: vLLM's registry.
        paths: files, with the separator of PATH between them.

    Raises:
        BridgeError: a file does not exist, or registers nothing. vLLM only logs why.
    """
    for path in filter(None, paths.split(os.pathsep)):
        if (path.endswith(".py") or os.sep in path) and not Path(path).is_file():  # else it is a module's name
            raise BridgeError(f"{PLUGIN_VARIABLES[slot]} names {path}, which is not a file")
        before = _registered(slot, registry)
        getattr(registry, f"import_{slot}_parser")(path)
        if _registered(slot, registry) == before:
            raise BridgeError(
                f"{PLUGIN_VARIABLES[slot]}: {path} registered no {slot} parser; vLLM's log says why, if it failed"
            )


def parser_names(slot: str, registry: Any) -> frozenset[str]:
    """The names of all registered parsers, those included that vLLM has not imported yet."""
    if hasattr(registry, "list_registered"):
        return frozenset(registry.list_registered())
    return frozenset(getattr(registry, f"{slot}_parsers"))


def _registered(slot: str, registry: Any) -> object:
    """What is registered, so that a file that replaces a parser is seen to do something, too."""
    kept = [dict(getattr(registry, name, {})) for name in (f"{slot}_parsers", "lazy_parsers")]
    return parser_names(slot, registry), kept


def parser_class(slot: str, name: str) -> Any:
    """The class of a registered parser."""
    return getattr(manager(slot), f"get_{slot}_parser")(name)


def request_class() -> Any:
    """The model of a chat request, which parsers look into."""
    return _first(_REQUEST)


def tokenizer() -> Any:
    """The tokenizer of the configured model, loaded once.

    Raises:
        BridgeError: no model is configured.
    """
    model = next((value for name in TOKENIZER_VARIABLES if (value := os.environ.get(name))), None)
    if model is None:
        raise BridgeError(
            f"vLLM's parsers need the model's tokenizer: set {TOKENIZER_VARIABLES[0]} to the model's directory or repo "
            "id, the same that is served"
        )
    return _load_tokenizer(model)


@cache
def _load_tokenizer(model: str) -> Any:
    return _first(_GET_TOKENIZER)(model)


def _first(places: Sequence[str]) -> Any:
    """The first of several ``module:name`` that this version of vLLM has."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            # Only a place that does not exist is passed over; a dependency of vLLM that is missing is told.
            if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
                raise
        except AttributeError:
            continue
    raise BridgeError(f"{_installed()}; the bridge looked for {' and '.join(places)}")


def _installed() -> str:
    try:
        return f"vLLM {version('vllm')} is laid out in a way that the bridge does not know"
    except PackageNotFoundError:
        return "vLLM is not installed in this environment"
