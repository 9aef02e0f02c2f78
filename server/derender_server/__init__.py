"""Render and derender, as services for the same process. The server around them is ``derender_server.app``."""

from __future__ import annotations

from derender_server.derenderer import Derenderer
from derender_server.model import ServedModel
from derender_server.renderer import Renderer

__all__ = ["Derenderer", "Renderer", "ServedModel"]
