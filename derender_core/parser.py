"""``Parser``: a loaded plugin, with its hooks as methods and the hook contract checked at every call."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import pluggy

from derender_core.defaults import Defaults
from derender_core.errors import BrokenParserError, ParserError
from derender_core.events import Event, Reasoning, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from derender_core.hookspecs import PROJECT, HookSpecs, State, Step
from derender_core.inputs import Delta, ParseContext, Prompt, Tool, ToolChoice
from derender_core.model_facts import ModelFacts
from derender_core.plugin_faults import find_faults

__all__ = ["Parser", "Slot", "make_parser"]

Slot = Literal["tool", "reasoning"]

Watcher = tuple[Callable[[], None], Callable[[], None]]

# What an event must hold, by its class. Only what would break whoever reads the event; the laws ask for more.
_IS_WELL_TYPED: Mapping[type, Callable[[Any], bool]] = {
    Text: lambda event: isinstance(event.text, str),
    Reasoning: lambda event: isinstance(event.text, str),
    ToolCallStart: lambda event: (
        type(event.index) is int and isinstance(event.name, str) and (event.id is None or isinstance(event.id, str))
    ),
    ToolCallArguments: lambda event: type(event.index) is int and isinstance(event.fragment, str),
    ToolCallEnd: lambda event: type(event.index) is int,
}


CALL_ID_LENGTHS = range(8, 65)
"""Shorter ids would not be unique."""

PARSE_DELTA_ARGUMENTS = ("state", "delta", "context")

# A plugin that exits must not take the server with it.
_FAILURES = (Exception, SystemExit)


class Parser:
    """A loaded parser: its hooks as methods, with the hook contract checked.

    Args:
        slot: "tool" or "reasoning".
        name: the flag's value.
        plugin: the object that implements the hooks.
        distribution: the distribution that it comes from.
        version: of that distribution.

    Raises:
        BrokenParserError: when it is made: the plugin does not fit the hooks.
        ParserError: from every method, when the parser raises or returns what the hook does not allow.
    """

    def __init__(self, slot: Slot, name: str, plugin: object, distribution: str = "", version: str = "") -> None:
        self.slot, self.name, self.plugin = slot, name, plugin
        self.distribution, self.version = distribution, version
        self._failures: Counter[str] = Counter()
        self._watchers: tuple[Watcher, ...] = ()
        self._lock = threading.Lock()
        faults = find_faults(plugin)
        if faults:
            raise BrokenParserError(f"{self} does not fit the hooks: {'. '.join(faults)}")
        described = getattr(plugin, "description", None)
        self.description: str = described if isinstance(described, str) and described else _first_line(plugin)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(HookSpecs)
        try:
            manager.register(plugin, name=f"{distribution}:{name}")
            manager.register(Defaults(manager.hook.derender_parse_delta))
            manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            raise BrokenParserError(f"{self} does not fit the hooks: {error}") from error
        self._hooks = {name: _direct(hook) for name, hook in vars(manager.hook).items() if name.startswith("derender_")}
        self._parse_delta = _parse_delta_of(manager)
        self.extracts_itself: bool = len(manager.hook.derender_extract.get_hookimpls()) > 1

    def __str__(self) -> str:
        return f"{self.slot} parser {self.name!r}" + (f" of {self.distribution}" if self.distribution else "")

    def __repr__(self) -> str:
        return f"<{self}>"

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def parse_delta(self, state: State | None, delta: Delta, context: ParseContext) -> Step:
        """Parse the next delta. See ``derender_parse_delta``."""
        watchers = self._watchers
        for before, _after in watchers:
            before()
        try:
            step = self._parse_delta(state, delta, context)
        except _FAILURES as error:
            raise self._raised("derender_parse_delta", error) from error
        finally:
            for _before, after in watchers:
                after()
        if step.__class__ is not Step:
            raise self._returned("derender_parse_delta", f"{type(step).__name__}, not a Step")
        if step.state.__class__ is not dict:
            raise self._returned("derender_parse_delta", f"a state that is {type(step.state).__name__}, not a dict")
        if step.spans and not _are_spans(step.spans):
            raise self._returned("derender_parse_delta", "spans that are no pairs of a bool and a number of characters")
        self._check_events("derender_parse_delta", step.events)
        return step

    def extract(self, output: Delta, context: ParseContext) -> list[Event]:
        """Parse a whole output. See ``derender_extract``."""
        if not self.extracts_itself:
            return list(self.parse_delta(None, output, context).events)
        events = self._call("derender_extract", output=output, context=context)
        self._check_events("derender_extract", events)
        return list(events)

    def prompt_opens_reasoning(self, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """Whether the output begins inside reasoning. See ``derender_prompt_opens_reasoning``."""
        answer = self._call("derender_prompt_opens_reasoning", prompt=prompt, context=context)
        if answer is None or answer is True or answer is False:
            return answer
        raise self._returned("derender_prompt_opens_reasoning", f"{answer!r}, not True, False or None")

    def special_tokens(self, context: ParseContext) -> tuple[str, ...]:
        """See ``derender_special_tokens``."""
        return self._texts("derender_special_tokens", context)

    def tool_call_openers(self, context: ParseContext) -> tuple[str, ...]:
        """See ``derender_tool_call_openers``."""
        return self._texts("derender_tool_call_openers", context)

    def structural_tag(self, tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
        """See ``derender_structural_tag``."""
        tag = self._call("derender_structural_tag", tools=tools, tool_choice=tool_choice)
        if tag is None or isinstance(tag, Mapping):
            return tag
        raise self._returned("derender_structural_tag", f"{type(tag).__name__}, not a mapping or None")

    def recognizes(self, model: ModelFacts) -> str | None:
        """See ``derender_recognizes``."""
        reason = self._call("derender_recognizes", model=model)
        if reason is None or (isinstance(reason, str) and reason):
            return reason
        raise self._returned("derender_recognizes", f"{reason!r}, not a reason or None")

    def call_id_length(self) -> int | None:
        """See ``derender_call_id_length``."""
        length = self._call("derender_call_id_length")
        if length is None or (type(length) is int and length in CALL_ID_LENGTHS):
            return length
        raise self._returned("derender_call_id_length", f"{length!r}, not a number from 8 to 64 or None")

    def check_state(self, state: State) -> str | None:
        """See ``derender_check_state``."""
        wrong = self._call("derender_check_state", state=state)
        if wrong is None or isinstance(wrong, str):
            return wrong
        raise self._returned("derender_check_state", f"{wrong!r}, not a text or None")

    # -- what became of the calls ------------------------------------------------------------------------------------

    @property
    def failures(self) -> Mapping[str, int]:
        """How often this parser failed in this process: by hook, and ``"timeout"``. For metrics."""
        with self._lock:
            return dict(self._failures)

    def count_failure(self, kind: str) -> None:
        """Count a failure that somebody else noticed, such as a call that took too long."""
        with self._lock:
            self._failures[kind] += 1

    def watch(self, before: Callable[[], None], after: Callable[[], None]) -> Callable[[], None]:
        """Have functions called around every call of this parser's hooks, in the thread that makes it.

        Args:
            before: called first.
            after: called last, also when the hook raised.

        Returns:
            A function that ends it.
        """
        watcher = (before, after)
        with self._lock:
            self._watchers = (*self._watchers, watcher)

        def end() -> None:
            with self._lock:
                self._watchers = tuple(one for one in self._watchers if one is not watcher)

        return end

    # -- the contract ------------------------------------------------------------------------------------------------

    def _call(self, hook: str, **arguments: Any) -> Any:
        watchers = self._watchers
        for before, _after in watchers:
            before()
        try:
            return self._hooks[hook](**arguments)
        except _FAILURES as error:
            raise self._raised(hook, error) from error
        finally:
            for _before, after in watchers:
                after()

    def _texts(self, hook: str, context: ParseContext) -> tuple[str, ...]:
        texts = self._call(hook, context=context)
        if texts is None:
            return ()
        if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
            raise self._returned(hook, f"{texts!r}, not a tuple of texts")
        return tuple(texts)

    def _check_events(self, hook: str, events: object) -> None:
        if events.__class__ is not tuple and not isinstance(events, (list, tuple)):
            # A generator would run while its events are looked at, and then be empty.
            raise self._returned(hook, f"what is no list of events: {type(events).__name__}")
        for event in events:
            is_well_typed = _IS_WELL_TYPED.get(event.__class__)
            if is_well_typed is None:
                raise self._returned(hook, f"{type(event).__name__} among its events")
            if not is_well_typed(event):
                raise self._returned(hook, f"an event with fields of a wrong type: {event!r}")

    def _raised(self, hook: str, error: BaseException) -> ParserError:
        self.count_failure(hook)
        return ParserError(f"{self} raised {type(error).__name__} in {hook}: {error}")

    def _returned(self, hook: str, what: str) -> ParserError:
        self.count_failure(hook)
        return ParserError(f"{self} returned from {hook} {what}")


def make_parser(slot: Slot, name: str, plugin: object) -> Parser:
    """A parser from a plugin object, without entry points: for tests and for notebooks.

    Raises:
        BrokenParserError: the plugin does not fit the hooks.
    """
    return Parser(slot, name, plugin)


def _direct(hook: pluggy.HookCaller) -> Callable[..., Any]:
    """A hook, called without pluggy's bookkeeping where nothing but the plugin answers it."""
    plugins = hook.get_hookimpls()
    if len(plugins) != 1 or plugins[0].hookwrapper or plugins[0].wrapper:
        return hook
    function, names = plugins[0].function, plugins[0].argnames
    return lambda **arguments: function(*[arguments[name] for name in names])


def _parse_delta_of(manager: pluggy.PluginManager) -> Callable[[State | None, Delta, ParseContext], Step]:
    """The hook that runs for every token, called without pluggy's bookkeeping where nothing but the plugin answers it:
    that takes a third of a usual call."""
    hook = manager.hook.derender_parse_delta
    plugins = hook.get_hookimpls()
    own = plugins[0]
    if len(plugins) == 1 and not own.hookwrapper and not own.wrapper and own.argnames == PARSE_DELTA_ARGUMENTS:
        return cast("Callable[[State | None, Delta, ParseContext], Step]", own.function)
    return lambda state, delta, context: hook(state=state, delta=delta, context=context)


def _are_spans(spans: object) -> bool:
    if not isinstance(spans, (tuple, list)):
        return False
    for span in spans:  # a loop, since this runs for every token: a generator takes three times as long
        if not (isinstance(span, tuple) and len(span) == 2 and type(span[0]) is bool and type(span[1]) is int):
            return False
    return True


def _first_line(plugin: object) -> str:
    return (getattr(plugin, "__doc__", None) or "").strip().split("\n", 1)[0]
