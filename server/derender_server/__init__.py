"""Render and derender, as services for the same process. The server around them is ``derender_server.app``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from derender_server.derenderer import Derenderer
    from derender_server.model import ServedModel
    from derender_server.renderer import Renderer

__all__ = ["Derenderer", "Renderer", "ServedModel"]

_MODULES = {"Derenderer": "derenderer", "Renderer": "renderer", "ServedModel": "model"}


def __getattr__(name: str) -> Any:
    # Imported when asked for: the command line has most of its work before it needs them, or does not at all.
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
