"""Finds what is wrong with a parser before it is asked to parse anything.

pluggy itself refuses hooks and parameters that do not exist. What is found here it would accept, and then call in a way
that the author did not mean: each of these has no error of its own, or one that does not say what to change.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from derender_core.hookspecs import PROJECT, HookSpecs

__all__ = ["find_faults"]

HOOKS: tuple[str, ...] = tuple(name for name in vars(HookSpecs) if name.startswith("derender_"))
NEEDED = "derender_parse_delta"
_MARK = f"{PROJECT}_impl"


def find_faults(plugin: object) -> list[str]:
    """What keeps an object from being a parser, one sentence each; empty when nothing does.

    Args:
        plugin: what an entry point names. None of its code is run.
    """
    if plugin is None:
        return ["the entry point names None, not a parser"]
    hooks = dict(_functions(plugin))
    marked = {name: _options(function) for name, function in hooks.items() if _options(function) is not None}
    faults = []
    for name, options in marked.items():
        assert options is not None
        hook = options.get("specname") or name
        if hook not in HOOKS:
            near = difflib.get_close_matches(hook, HOOKS, n=1)
            faults.append(f"there is no hook {hook!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        else:
            faults += [f"{hook}: {fault}" for fault in _signature_faults(plugin, name, hook, options)]
    forgotten = [name for name in hooks if name in HOOKS and name not in marked]
    faults += [f"{name} is not marked with @hookimpl, so it is never called" for name in forgotten]
    if not faults and not any(_implements(name, options) for name, options in marked.items()):
        what = f"it is an object of type {type(plugin).__name__}" if not marked else "it implements other hooks only"
        faults.append(f"it does not implement {NEEDED}; {what}")
    return faults


def _functions(plugin: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What may be hooks: the functions of the object that are marked as such, or named like one."""
    for name in dir(plugin):
        found = inspect.getattr_static(plugin, name, None)
        function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        if callable(function) and (name in HOOKS or _options(function) is not None):
            yield name, function


def _options(function: object) -> Mapping[str, Any] | None:
    options = getattr(function, _MARK, None)
    return options if isinstance(options, Mapping) else None


def _implements(name: str, options: Mapping[str, Any] | None) -> bool:
    assert options is not None
    return (options.get("specname") or name) == NEEDED and not (options.get("wrapper") or options.get("hookwrapper"))


def _signature_faults(plugin: object, name: str, hook: str, options: Mapping[str, Any]) -> Iterator[str]:
    function = getattr(plugin, name)  # as pluggy gets it, bound where it will be
    wrapper = options.get("wrapper") or options.get("hookwrapper")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield "it is async; parsers are synchronous and do no input or output"
        return
    if inspect.isgeneratorfunction(function) and not wrapper:
        yield "it is a generator; return the result instead of yielding it"
        return
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        yield "its signature cannot be read"
        return
    if parameters and parameters[0].name == "self" and inspect.isclass(plugin):
        yield f"it needs an instance, but the entry point names the class {plugin.__name__}; name an instance of it"
        return
    yield from _parameter_faults(parameters, hook)


def _parameter_faults(parameters: list[inspect.Parameter], hook: str) -> Iterator[str]:
    """What the hook's caller would not fill as the author expects: it passes plain parameters by position."""
    spec = [name for name in inspect.signature(getattr(HookSpecs, hook)).parameters if name != "self"]
    takes = f"it may take {', '.join(spec)}"
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"parameter *{parameter.name} would stay empty; {takes}"
        elif parameter.name not in spec:
            yield f"there is no parameter {parameter.name!r}; {takes}"
        elif parameter.kind is parameter.KEYWORD_ONLY:
            yield f"parameter {parameter.name!r} is keyword-only and would not be given; remove the '*' before it"
        elif parameter.default is not parameter.empty:
            yield f"parameter {parameter.name!r} has a default, so it would never be given; remove the default"
    if hook == NEEDED and "delta" not in [parameter.name for parameter in parameters]:
        yield f"it does not take 'delta', so it cannot parse anything; {takes}"
