"""What the two registries share."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable
from typing import Any, ClassVar

log = logging.getLogger("vllm")


class Registry:
    """Classes by name, some of which are imported only when they are asked for."""

    classes: ClassVar[dict[str, type]]
    lazy: ClassVar[dict[str, tuple[str, str]]]

    @classmethod
    def register_module(cls, name: str) -> Callable[[type], type]:
        """Decorates a class."""

        def register(module: type) -> type:
            cls.classes[name] = module
            return module

        return register

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        """Registers a class that is not imported yet."""
        cls.lazy[name] = (module_path, class_name)

    @classmethod
    def list_registered(cls) -> list[str]:
        """All names."""
        return sorted({*cls.classes, *cls.lazy})

    @classmethod
    def find(cls, name: str) -> Any:
        """A class."""
        if name in cls.lazy and name not in cls.classes:
            module, class_name = cls.lazy[name]
            cls.classes[name] = getattr(importlib.import_module(module), class_name)
        return cls.classes[name]

    @classmethod
    def import_file(cls, path: str) -> None:
        """Runs a file, which registers what it likes. A failure is only logged."""
        try:
            spec = importlib.util.spec_from_file_location("vllm_plugin_file", path)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        except Exception:
            log.exception("Failed to load %s", path)
