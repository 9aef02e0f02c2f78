"""The parser source: names of vLLM's parsers, and plugins for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derender_vllm_bridge.plugins import ReasoningPlugin, ToolPlugin
from derender_vllm_bridge.vllm_api import manager, parser_class, parser_names, tokenizer

__all__ = ["VllmSource"]


class VllmSource:
    """Lists and loads vLLM's parsers. See ``derender_core.ParserSource``."""

    def list_parsers(self, slot: str) -> Mapping[str, str]:
        """All names registered in vLLM and in the configured plugin files.

        Raises:
            BridgeError: vLLM is not installed, or a plugin file is wrong.
        """
        return dict.fromkeys(parser_names(slot, manager(slot)), f"vLLM's {slot} parser, by replay.")

    def load_parser(self, slot: str, name: str) -> object:
        """The plugin of one of them.

        Raises:
            BridgeError: no tokenizer is configured.
        """
        plugin: Any = ToolPlugin if slot == "tool" else ReasoningPlugin
        made = plugin(parser_class(slot, name), tokenizer(), f"vLLM's {slot} parser {name}, by replay.")
        assert isinstance(made, (ToolPlugin, ReasoningPlugin))
        return made
