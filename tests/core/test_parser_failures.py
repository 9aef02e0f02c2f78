"""What is wrong with a parser is said when it is loaded; what goes wrong later is said with its name.

The distributions here are real ones as far as the registry can see, see the fixture ``install``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from derender_core import (
    AmbiguousParserError,
    BrokenParserError,
    Delta,
    ParseContext,
    Parser,
    ParserError,
    ParserInfo,
    Reasoning,
    Step,
    Text,
    Tool,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    UnknownParserError,
    hookimpl,
    list_parsers,
    load_parser,
    make_parser,
)

Install = Callable[..., None]

GOOD = """
from derender_core import Step, Text, hookimpl

class Echo:
    "Says everything."

    @hookimpl
    def derender_parse_delta(self, delta):
        return Step({}, (Text(delta.text),) if delta.text else ())

plugin = Echo()
"""


def named(name: str) -> ParserInfo:
    (info,) = [info for info in list_parsers() if info.name == name]
    return info


# -- names -------------------------------------------------------------------------------------------------------------


def test_an_unknown_name_lists_what_there_is_and_the_nearest(install: Install) -> None:
    install("acme", "acme_calls = acme:plugin", GOOD)
    with pytest.raises(UnknownParserError, match=r"No tool parser 'acme_cals'\. Did you mean 'acme_calls'\?") as caught:
        load_parser("tool", "acme_cals")
    assert "Installed: acme_calls, " in str(caught.value)
    assert "hermes" in str(caught.value)


def test_an_unknown_name_of_a_distribution_gets_the_nearest_too() -> None:
    with pytest.raises(UnknownParserError, match="Did you mean 'hermes'"):
        load_parser("tool", "derender:hermess")


def test_a_name_of_the_other_slot_is_pointed_out() -> None:
    with pytest.raises(UnknownParserError, match="There is a reasoning parser of that name"):
        load_parser("tool", "qwen3")


def test_a_name_that_two_distributions_declare_names_both(install: Install) -> None:
    install("acme", "calls = acme:plugin", GOOD)
    install("bolt", "calls = bolt:plugin", GOOD)
    with pytest.raises(AmbiguousParserError, match="say 'acme:calls' or 'bolt:calls'"):
        load_parser("tool", "calls")
    assert load_parser("tool", "bolt:calls").distribution == "bolt"
    assert [info.name for info in list_parsers() if info.name.endswith(":calls")] == ["acme:calls", "bolt:calls"]


# -- plugins that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("plugging = 1", "AttributeError"),
        (None, "ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_does_not_import_breaks_nothing_else(install: Install, code: str | None, reason: str) -> None:
    install("acme", "broken = acme:plugin", code)
    install("bolt", "works = bolt:plugin", GOOD)
    with pytest.raises(BrokenParserError, match="tool parser 'broken' of acme does not import: ") as caught:
        load_parser("tool", "broken")
    assert reason in str(caught.value)
    assert named("broken").error == str(caught.value)
    assert named("works") == ParserInfo("tool", "works", "bolt", "1.2", "Says everything.")
    assert load_parser("tool", "works").extract(Delta("x", final=True), ParseContext()) == [Text("x")]
    assert load_parser("tool", "hermes")


class Unmarked:
    def derender_parse_delta(self, delta: Delta) -> Step:
        return Step({}, (Text(delta.text),))


class Misspelt:
    @hookimpl
    def derender_parse_detla(self, delta: Delta) -> Step:
        return Step({}, (Text(delta.text),))


class OnlyOthers:
    @hookimpl
    def derender_special_tokens(self) -> tuple[str, ...]:
        return ()


class UnknownParameter:
    @hookimpl
    def derender_parse_delta(self, delta: Delta, request: Any) -> Any: ...


class NoDelta:
    @hookimpl
    def derender_parse_delta(self, state: Any) -> Any: ...


class KeywordOnly:
    @hookimpl
    def derender_parse_delta(self, *, delta: Delta) -> Any: ...


class WithDefault:
    @hookimpl
    def derender_parse_delta(self, delta: Delta, context: Any = None) -> Any: ...


class AnyParameters:
    @hookimpl
    def derender_parse_delta(self, *everything: Any) -> Any: ...


class Asynchronous:
    @hookimpl
    async def derender_parse_delta(self, delta: Delta) -> Any: ...


class Yielding:
    @hookimpl
    def derender_parse_delta(self, delta: Delta) -> Any:
        yield Text(delta.text)


class WrapperOnly:
    @hookimpl(wrapper=True)
    def derender_parse_delta(self, delta: Delta) -> Any:  # noqa: ARG002 - a hook's signature
        return (yield)


class Echo:
    @hookimpl
    def derender_parse_delta(self, delta: Delta) -> Step:
        return Step({}, (Text(delta.text),))


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (None, "the entry point names None"),
        (object(), "does not implement derender_parse_delta; it is an object of type object"),
        (Unmarked(), "derender_parse_delta is not marked with @hookimpl"),
        (Misspelt(), "no hook 'derender_parse_detla'; did you mean 'derender_parse_delta'?"),
        (OnlyOthers(), "does not implement derender_parse_delta; it implements other hooks only"),
        (WrapperOnly(), "does not implement derender_parse_delta"),
        (UnknownParameter(), "there is no parameter 'request'; it may take state, delta, context"),
        (NoDelta(), "it does not take 'delta'"),
        (KeywordOnly(), "parameter 'delta' is keyword-only"),
        (WithDefault(), "parameter 'context' has a default, so it would never be given"),
        (AnyParameters(), "parameter *everything would stay empty"),
        (Asynchronous(), "it is async"),
        (Yielding(), "it is a generator"),
        (Echo, "names the class Echo; name an instance of it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plugin_that_does_not_fit_is_refused_with_the_reason(plugin: object, reason: str) -> None:
    with pytest.raises(BrokenParserError, match="tool parser 'mine' does not fit the hooks: ") as caught:
        make_parser("tool", "mine", plugin)
    assert reason in str(caught.value)


def test_modules_static_methods_and_unbound_parameters_are_fine(install: Install) -> None:
    install(
        "acme",
        "module = acme",
        """
        "A module."
        from derender_core import Step, Text, hookimpl

        @hookimpl
        def derender_parse_delta(state, delta, context):
            return Step({}, (Text(delta.text),))
        """,
    )

    class Static:
        @staticmethod
        @hookimpl
        def derender_parse_delta(delta: Delta) -> Step:
            return Step({}, (Text(delta.text),))

    for parser in (load_parser("tool", "module"), make_parser("tool", "x", Static), make_parser("tool", "x", Static())):
        assert parser.parse_delta(None, Delta("a"), ParseContext()).events == (Text("a"),)
    assert load_parser("tool", "module").description == "A module."


# -- plugins that break the contract while parsing ---------------------------------------------------------------------


def answering(hook: str, answer: object) -> Parser:
    """A parser one of whose hooks returns this."""

    class Plugin:
        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Any:
            return answer if hook == "derender_parse_delta" else Step({}, (Text(delta.text),))

    if hook != "derender_parse_delta":
        setattr(Plugin, hook, hookimpl(lambda self: answer))  # noqa: ARG005 - bound as a method
    return make_parser("tool", "mine", Plugin())


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        (Text("x"),),
        ({}, ()),
        Step(None, ()),  # type: ignore[arg-type]
        Step([], ()),  # type: ignore[arg-type]
        Step({}, None),  # type: ignore[arg-type]
        Step({}, "text"),  # type: ignore[arg-type]
        pytest.param(Step({}, iter([Text("x")])), id="a step with an iterator"),  # type: ignore[arg-type]
        Step({}, ("text",)),  # type: ignore[arg-type]
        Step({}, ({"content": "x"},)),  # type: ignore[arg-type]
        Step({}, (Text(None),)),  # type: ignore[arg-type]
        Step({}, (Reasoning(b"x"),)),  # type: ignore[arg-type]
        Step({}, (ToolCallStart("0", "ring"),)),  # type: ignore[arg-type]
        Step({}, (ToolCallStart(0, None),)),  # type: ignore[arg-type]
        Step({}, (ToolCallStart(0, "ring", 7),)),  # type: ignore[arg-type]
        Step({}, (ToolCallArguments(0, {}),)),  # type: ignore[arg-type]
        Step({}, (ToolCallEnd(None),)),  # type: ignore[arg-type]
        Step({}, (), ((1, 2),)),  # type: ignore[arg-type]
        Step({}, (), 7),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_step_that_is_none_is_an_error_that_names_the_parser(answer: object) -> None:
    parser = answering("derender_parse_delta", answer)
    with pytest.raises(ParserError, match=r"^tool parser 'mine' returned from derender_parse_delta "):
        parser.parse_delta(None, Delta("x"), ParseContext())
    assert parser.failures == {"derender_parse_delta": 1}


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("derender_extract", "text"),
        ("derender_extract", ["text"]),
        ("derender_extract", 7),
        ("derender_special_tokens", "<think>"),
        ("derender_special_tokens", (1,)),
        ("derender_tool_call_openers", {"a": 1}),
        ("derender_prompt_opens_reasoning", "yes"),
        ("derender_structural_tag", "{}"),
        ("derender_check_state", True),
    ],
)
def test_other_hooks_are_held_to_their_types_too(hook: str, answer: object) -> None:
    parser = answering(hook, answer)
    calls: dict[str, Callable[[], object]] = {
        "derender_extract": lambda: parser.extract(Delta("x", final=True), ParseContext()),
        "derender_special_tokens": lambda: parser.special_tokens(ParseContext()),
        "derender_tool_call_openers": lambda: parser.tool_call_openers(ParseContext()),
        "derender_prompt_opens_reasoning": lambda: parser.prompt_opens_reasoning(None, ParseContext()),
        "derender_structural_tag": lambda: parser.structural_tag((Tool("ring"),), "auto"),
        "derender_check_state": lambda: parser.check_state({}),
    }
    with pytest.raises(ParserError, match=f"^tool parser 'mine' returned from {hook} "):
        calls[hook]()
    assert parser.failures == {hook: 1}


def test_an_exception_is_an_error_that_names_the_parser_the_hook_and_the_cause() -> None:
    class Raising:
        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Step:
            raise KeyError(delta.text)

    parser = make_parser("reasoning", "mine", Raising())
    with pytest.raises(
        ParserError, match=r"^reasoning parser 'mine' raised KeyError in derender_parse_delta: 'x'"
    ) as caught:
        parser.parse_delta(None, Delta("x"), ParseContext())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ParserError, match="raised KeyError in derender_parse_delta"):
        parser.extract(Delta("x", final=True), ParseContext())
    assert parser.failures == {"derender_parse_delta": 2}
    parser.count_failure("timeout")
    assert parser.failures["timeout"] == 1


def test_a_plugin_that_exits_is_an_error_too() -> None:
    class Exiting:
        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Step:
            raise SystemExit(delta.text)

    with pytest.raises(ParserError, match="raised SystemExit"):
        make_parser("tool", "mine", Exiting()).parse_delta(None, Delta("x"), ParseContext())


def test_calls_can_be_watched_by_several() -> None:
    seen: list[str] = []
    parser = make_parser("tool", "mine", Echo())

    def call() -> list[str]:
        seen.clear()
        parser.parse_delta(None, Delta("x"), ParseContext())
        return list(seen)

    end_first = parser.watch(lambda: seen.append("first before"), lambda: seen.append("first after"))
    assert call() == ["first before", "first after"]
    end_second = parser.watch(lambda: seen.append("second before"), lambda: seen.append("second after"))
    assert call() == ["first before", "second before", "first after", "second after"]
    end_first()
    assert call() == ["second before", "second after"]
    end_second()
    assert call() == []


# -- sources -----------------------------------------------------------------------------------------------------------

SOURCE = """
from derender_core import Step, Text, hookimpl

class Echo:
    @hookimpl
    def derender_parse_delta(self, delta):
        return Step({}, (Text(delta.text),) if delta.text else ())

class Source:
    def list_parsers(self, slot):
        return {"echo": "Says it.", "broken": "Does not load."} if slot == "tool" else {}

    def load_parser(self, slot, name):
        if name == "broken":
            raise RuntimeError("no weights")
        return Echo()

source = Source()
"""


def test_parsers_of_a_source_are_listed_and_loaded_under_its_prefix(install: Install) -> None:
    install("acme", "zoo = acme:source", SOURCE, group="parser_sources")
    parser = load_parser("tool", "zoo:echo")
    assert (parser.name, parser.distribution, parser.version) == ("zoo:echo", "acme", "1.2")
    assert parser.extract(Delta("x", final=True), ParseContext()) == [Text("x")]
    assert named("zoo:echo") == ParserInfo("tool", "zoo:echo", "acme", "1.2", "Says it.")
    with pytest.raises(BrokenParserError, match=r"tool parser 'zoo:broken' of acme cannot be loaded: .*no weights"):
        load_parser("tool", "zoo:broken")
    with pytest.raises(UnknownParserError, match="Did you mean 'zoo:echo'") as caught:
        load_parser("tool", "zoo:ecko")
    assert "zoo has: zoo:broken, zoo:echo" in str(caught.value)
    with pytest.raises(UnknownParserError, match="zoo has: none"):
        load_parser("reasoning", "zoo:echo")
    with pytest.raises(UnknownParserError, match=r"Installed: .*zoo:NAME"):
        load_parser("tool", "nobody")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("1 / 0", "does not import: ZeroDivisionError"),
        ("source = object()", "cannot list its tool parsers: AttributeError"),
        (SOURCE.replace('"Says it."', "7"), "must list names with descriptions"),
    ],
)
def test_a_source_that_does_not_work_breaks_nothing_else(install: Install, code: str, reason: str) -> None:
    install("acme", "zoo = acme:source", code, group="parser_sources")
    (info,) = [info for info in list_parsers() if info.slot == "tool" and info.distribution == "acme"]
    assert info.name == "zoo:*"
    assert reason in (info.error or "")
    with pytest.raises(BrokenParserError, match="parser source 'zoo'") as caught:
        load_parser("tool", "zoo:echo")
    assert reason in str(caught.value)
    assert load_parser("tool", "hermes")


def test_a_source_that_two_distributions_declare_names_both(install: Install) -> None:
    install("acme", "zoo = acme:source", SOURCE, group="parser_sources")
    install("bolt", "zoo = bolt:source", SOURCE, group="parser_sources")
    with pytest.raises(AmbiguousParserError, match="parser source 'zoo'; uninstall all but one of 'acme:zoo' or 'bolt"):
        load_parser("tool", "zoo:echo")
    assert {info.error is None for info in list_parsers() if info.name == "zoo:*"} == {False}


class Told(Echo):
    def __init__(self, length: Any) -> None:
        self.length = length

    @hookimpl
    def derender_call_id_length(self) -> Any:
        return self.length


@pytest.mark.parametrize("length", [0, 7, 65, "9", True, 9.0])
def test_a_length_of_call_ids_that_is_none_is_refused(length: object) -> None:
    with pytest.raises(ParserError, match="derender_call_id_length") as error:
        make_parser("tool", "mine", Told(length)).call_id_length()
    assert f"{length!r}, not a number from 8 to 64 or None" in str(error.value)


def test_a_parser_need_not_say_how_long_ids_are() -> None:
    assert make_parser("tool", "mine", Echo()).call_id_length() is None
    assert make_parser("tool", "mine", Told(9)).call_id_length() == 9
