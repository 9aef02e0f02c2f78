"""``ForcedCallMachine``: bare JSON where the request forced a call and the engine used a generic JSON grammar.

With ``tool_choice`` ``"required"`` such an engine writes a list of ``{"name", "parameters" | "arguments"}`` objects (or
one or more of them by themselves), and with a named function the object of its arguments, in place of the model's own
format. Anything else is handed on untouched to the tool parser.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender_core.json_call import JsonCallMachine, Progress
from derender_core.json_scan import depth
from derender_core.json_text import ARGUMENT_KEYS, Call, normalize_arguments, parse_call
from derender_core.machine import NEED_DATA, NeedData

__all__ = ["NATIVE", "ForcedCallMachine"]

NATIVE = "native"
"""The phase in which the machine only hands on: what it emits as text belongs to the tool parser."""

# First keys that a call object of some model's own format may have; an object that begins so is read whole first.
_CALL_KEYS = frozenset({"name", "type", "id", "function", *ARGUMENT_KEYS})


@dataclass
class ForcedCallMachine(JsonCallMachine):
    """Bare JSON calls of a generic grammar.

    Args:
        bare: the call objects stand by themselves, not in a list.
    """

    bare: bool = False

    trim = False

    def read_start(self) -> NeedData | None:
        """The first character that is not blank tells."""
        char = self.skip_blank()
        if char == "" and not self.final:
            return NEED_DATA
        self.name = self.context.forced_name or ""
        if self.name and char == "{":
            self.begin_value()
            self.body, self.phase = self.ahead, "key"
        elif not self.name and char in ("[", "{"):
            self.bare = char == "{"
            self.ahead += not self.bare
            self.phase = "list"
        else:
            self._not_ours()
        return None

    def read_native(self) -> NeedData:
        """Hand on."""
        self.emit_text(self.waiting)
        return NEED_DATA

    # -- a list of calls ---------------------------------------------------------------------------------------------

    def read_list(self) -> NeedData | None:
        """The next element, or the end of the list."""
        char = self.skip_blank("" if not self.calls else ",;" if self.bare else ",")
        if char == "{":
            self.begin_value()
            self.body, self.phase = self.ahead, "element"
        elif char == "":
            return self._wait()
        elif char == "]" and self.calls and not self.bare:
            self.ahead += 1
            self._rest()
        else:
            self._not_ours()
        return None

    def may_announce(self, name: str) -> bool:
        """There is no opener: only an offered name is certain."""
        return name in self.context.tool_names

    def read_element(self) -> NeedData | None:
        """A call object of the list."""
        progress = self.walk_object()
        if progress == "more":
            return self._wait()
        if self.announced:
            self._end_announced(progress)
            return None
        call = parse_call(self.body_text) if progress == "done" else None
        if call is None or call.name not in self.context.tool_names:
            self._not_ours()
        else:
            self._next()
            self.call(call)
        return None

    def _end_announced(self, progress: Progress) -> None:
        if progress == "done":
            self.end_call()
            self._next()
        else:
            self._rest()

    def _next(self) -> None:
        self.end_region()
        self.phase = "list"

    # -- the arguments of a named function ---------------------------------------------------------------------------

    def read_key(self) -> NeedData | None:
        """The object's first key tells whether it may be a call object of the model's own format."""
        while True:
            progress = self._scan(stop=1)
            if progress == "more" and depth(self.scan) == 1:
                self._top_level(self.scan[2:])
            if progress != "more" or self.key:
                break
            if self._exhausted:
                return self._wait()
        if progress == "bad":  # known before anything was announced
            self._not_ours()
            return None
        self.phase = "object" if progress == "more" and self.key in _CALL_KEYS else "arguments"
        self.ahead = self.body
        self.begin_value()
        return None

    def read_object(self) -> NeedData | None:
        """An object that may be a call object: only the whole of it tells."""
        progress = self.walk_value()
        if progress == "more":
            return self._wait()
        text = self.body_text
        call = parse_call(text, required=True) if progress == "done" else None
        if call is not None and call.name == self.name:
            self.bare = True
            self._next()
            self.call(call)
        else:
            self._take_arguments(normalize_arguments(text) if progress == "done" else None)
        return None

    def read_arguments(self) -> NeedData | None:
        """An object that is the arguments."""
        progress = self.walk_arguments()
        if progress == "more":
            return self._wait()
        if not self.announced:
            self._take_arguments(normalize_arguments(self.body_text) if progress == "done" else None)
        else:
            if progress == "done":
                self.end_call()
            self._rest()
        return None

    def _take_arguments(self, arguments: str | None) -> None:
        if arguments is None:
            self._not_ours()
            return
        call = Call(self.name, arguments)
        self._rest()
        self.call(call)

    # -- the end -----------------------------------------------------------------------------------------------------

    def read_rest(self) -> NeedData:
        """Text behind the JSON is content."""
        self.content(self.take_rest())
        if self.final:
            self.end_content()
        return NEED_DATA

    def _rest(self) -> None:
        self.end_region()
        self.phase = "rest"

    def _not_ours(self) -> None:
        """Not what a generic grammar writes: the tool parser's, unless calls were sent, then it is content."""
        self.ahead = 0
        self.forget_region()
        self.phase = "rest" if self.calls else NATIVE

    def _wait(self) -> NeedData | None:
        """At the end of the output what is not complete is dropped."""
        if not self.final:
            return NEED_DATA
        self.ahead = self.waiting
        self._rest()
        return None
