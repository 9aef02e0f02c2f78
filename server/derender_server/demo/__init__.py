"""A model without weights, to try the wire with: a tiny tokenizer, a chat template, and an engine that plays a script.

Nothing here is needed to serve a real model, and importing this package does not import the web framework; only
``derender_server.demo.engine`` does.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["demo_model_path"]


def demo_model_path() -> Path:
    """The directory of the demo model: tokenizer, configuration and chat template.

    Raises:
        FileNotFoundError: the package is not installed as files in a directory.
    """
    path = Path(str(files(__name__) / "model"))
    if not (path / "tokenizer.json").is_file():
        raise FileNotFoundError(f"the demo model is not in {path}; install derender unpacked, not as a zip archive")
    return path
