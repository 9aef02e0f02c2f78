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
    # Imported when asked for: `derender parsers` needs none of them, and a server imports in an order of its own.
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
