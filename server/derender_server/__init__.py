"""Render and derender, as services for the same process. The server around them is ``derender_server.app``."""

from __future__ import annotations

from derender_server.derenderer import Derenderer
from derender_server.model import ServedModel

__all__ = ["Derenderer", "ServedModel"]
