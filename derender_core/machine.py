"""``Machine``: a parser as a phase, a buffer and one ``read_<phase>`` method per phase.

A machine is a dataclass whose fields are its whole state. ``feed`` appends the delta to the buffer and calls the reader
of the current phase until one says ``NEED_DATA``. A reader consumes from the buffer (``take``, ``skip``,
``take_until``), emits events, and may change ``phase``; it returns ``NEED_DATA`` when the buffer holds too little to
decide, and anything else to be called again. With ``self.final`` no more text will come, so a reader must then decide.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, dataclass, fields
from types import NoneType
from typing import Any, ClassVar, Final

from derender_core.events import Event
from derender_core.hookspecs import State
from derender_core.inputs import Delta, ParseContext
from derender_core.text_buffer import TextBuffer

__all__ = ["NEED_DATA", "Machine", "NeedData"]


class NeedData:
    """The type of ``NEED_DATA``."""

    def __repr__(self) -> str:
        return "NEED_DATA"


NEED_DATA: Final = NeedData()
"""What a reader returns when it cannot go on before more text arrives."""

Reader = Callable[[Any], object]


@dataclass
class Machine(TextBuffer):
    """Base of all machines.

    Subclasses are dataclasses; every field has a default, and holds a JSON-plain value.

    Args:
        phase: name of the current reader, ``read_<phase>``.
    """

    phase: str = "start"

    _readers: ClassVar[dict[str, Reader]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}
    _containers: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold lists and dicts."""

    # -- running -----------------------------------------------------------------------------------------------------

    def feed(self, delta: Delta, context: ParseContext) -> list[Event]:
        """Read one delta.

        Returns:
            The events that became certain.

        Raises:
            RuntimeError: a reader neither consumed anything, nor changed a field, nor asked for data.
        """
        self._begin(delta, context)
        readers = self._readers
        before = 0, self.phase, 0
        while readers[self.phase](self) is not NEED_DATA:
            now = self._at, self.phase, len(self._events)
            if now == before:
                self._get_on()
            before = now
        if self._at or self._added:
            self._cut()
        return self._events

    def _get_on(self) -> None:
        """A reader neither consumed nor emitted anything: legal when it changed a field, so let it try once more."""
        before = self._at, self.save()
        if self._readers[self.phase](self) is not NEED_DATA and before == (self._at, self.save()):
            raise RuntimeError(f"{type(self).__name__}.read_{self.phase} does not get on")

    # -- state -------------------------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._defaults = {}  # filled on first use: the dataclass decorator runs after this

    @classmethod
    def _prepare(cls) -> None:
        cls._readers = {name.removeprefix("read_"): getattr(cls, name) for name in dir(cls) if name.startswith("read_")}
        if "__dataclass_fields__" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} must be decorated with @dataclass, like every machine")
        defaults = {}
        for field in fields(cls):
            if field.default is MISSING:
                raise TypeError(f"{cls.__name__}.{field.name} needs a plain default: it is part of a small JSON state")
            defaults[field.name] = field.default
        if defaults["phase"] not in cls._readers:
            raise TypeError(f"{cls.__name__} begins in phase {defaults['phase']!r} and has no read_{defaults['phase']}")
        cls._containers = tuple(key for key, value in defaults.items() if isinstance(value, (list, dict, NoneType)))
        cls._defaults = defaults

    @classmethod
    def load(cls, state: State | None) -> Any:
        """A machine in this state; a fresh one for None. The state itself is never changed."""
        if not cls._defaults:
            cls._prepare()
        machine = cls.__new__(cls)  # fields that are not set read their default from the class
        if state:
            values = machine.__dict__
            values.update(state)
            for key in cls._containers:
                if key in values:
                    values[key] = copy(values[key])
        return machine

    def save(self) -> State:
        """The fields that differ from their defaults."""
        values, default = self.__dict__, self._defaults.get
        state = values.copy()
        for key, value in values.items():
            if value == default(key, value):  # so does what is no field
                del state[key]
        return state

    @classmethod
    def check(cls, state: State) -> str | None:
        """Say what is wrong with a state from outside: unknown fields, wrong types, unknown phase, odd positions.

        Subclasses with stricter fields extend it. A state that passes must never make ``feed`` raise.
        """
        if not cls._defaults:
            cls._prepare()
        for key, value in state.items():
            if key not in cls._defaults:
                return f"unknown field {key!r}"
            default = cls._defaults[key]
            if key in cls._containers:
                continue
            if value.__class__ is not default.__class__:
                return f"field {key!r} must be of type {type(default).__name__}"
            if isinstance(value, int) and not 0 <= value <= 1 << 40:
                return f"field {key!r} is out of range"
        if state.get("phase", cls._defaults["phase"]) not in cls._readers:
            return f"unknown phase {state['phase']!r}"
        return _check_specials(state.get("specials"), len(state.get("buffer", "")))


def _check_specials(specials: object, size: int) -> str | None:
    if specials is None:
        return None
    if not isinstance(specials, list):
        return "field 'specials' must be a list"
    for mark in specials:
        if not (isinstance(mark, list) and len(mark) == 3 and all(type(part) is int for part in mark)):
            return "field 'specials' must hold lists of three integers"
        if not 0 <= mark[0] <= mark[1] <= size:
            return "field 'specials' points outside the buffer"
    return None
