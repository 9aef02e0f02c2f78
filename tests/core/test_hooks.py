"""The hook contract: whatever a plugin does wrong is told as its error, with its name."""

# ruff: noqa: ARG005 - hooks are told apart by their parameters
from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from derender_core import (
    BrokenParserError,
    Delta,
    HookSpecs,
    MachinePlugin,
    ParseContext,
    ParserError,
    Step,
    Text,
    hookimpl,
    load_parser,
    make_parser,
)

CONTEXT = ParseContext()
DELTA = Delta("x", final=True)


def plugin(**hooks: Callable[..., Any]) -> object:
    """An object with these hooks; ``parse_delta`` echoes unless it is given."""
    methods: dict[str, Any] = {
        f"derender_{name}": staticmethod(hookimpl(function))
        for name, function in {"parse_delta": lambda delta: Step({}, (Text(delta.text),)), **hooks}.items()
    }
    return type("Plugin", (), methods)()


def test_what_a_plugin_leaves_out_has_a_default() -> None:
    parser = make_parser("tool", "echo", plugin())
    assert parser.extract(DELTA, CONTEXT) == [Text("x")]
    assert parser.extracts_itself is False
    assert parser.special_tokens(CONTEXT) == parser.tool_call_openers(CONTEXT) == ()
    assert parser.structural_tag((), "auto") is None
    assert parser.prompt_opens_reasoning(None, CONTEXT) is None
    assert parser.check_state({"any": 1}) is None


def test_hooks_are_asked() -> None:
    parser = make_parser(
        "reasoning",
        "full",
        plugin(
            extract=lambda output: [Text(output.text * 2)],
            special_tokens=lambda: ("<a>",),
            tool_call_openers=lambda context: ["<b>"] if context.tools else None,
            structural_tag=lambda tools, tool_choice: {"tools": len(tools), "choice": tool_choice},
            prompt_opens_reasoning=lambda prompt: prompt is None,
            check_state=lambda state: "bad" if state else None,
        ),
    )
    assert parser.extracts_itself is True
    assert parser.extract(DELTA, CONTEXT) == [Text("xx")]
    assert parser.special_tokens(CONTEXT) == ("<a>",)
    assert parser.tool_call_openers(CONTEXT) == ()
    assert parser.structural_tag((), "none") == {"tools": 0, "choice": "none"}
    assert parser.prompt_opens_reasoning(None, CONTEXT) is True
    assert (parser.check_state({}), parser.check_state({"a": 1})) == (None, "bad")


@pytest.mark.parametrize(
    "step",
    [
        None,
        (),
        {"state": {}, "events": ()},
        Step(None, ()),  # type: ignore[arg-type]
        Step([], ()),  # type: ignore[arg-type]
        Step({}, None),  # type: ignore[arg-type]
        Step({}, (None,)),  # type: ignore[arg-type]
        Step({}, ("text",)),  # type: ignore[arg-type]
        Step({}, "text"),  # type: ignore[arg-type]
        Step({}, (Text(None),)),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_result_that_is_no_step_of_events_is_the_plugins_error(step: Any) -> None:
    parser = make_parser("tool", "odd", plugin(parse_delta=lambda delta: step))
    with pytest.raises(ParserError, match="tool parser 'odd'"):
        parser.parse_delta(None, DELTA, CONTEXT)


@pytest.mark.parametrize(
    "events",
    ["text", [None], Text("x"), (Text("x"), "y"), pytest.param(iter([Text("x")]), id="an iterator")],
    ids=repr,
)
def test_extract_must_give_a_list_of_events(events: Any) -> None:
    parser = make_parser("tool", "odd", plugin(extract=lambda: events))
    with pytest.raises(ParserError, match="derender_extract"):
        parser.extract(DELTA, CONTEXT)


CALLS: dict[str, Callable[[Any], Any]] = {
    "parse_delta": lambda parser: parser.parse_delta(None, DELTA, CONTEXT),
    "extract": lambda parser: parser.extract(DELTA, CONTEXT),
    "prompt_opens_reasoning": lambda parser: parser.prompt_opens_reasoning(None, CONTEXT),
    "special_tokens": lambda parser: parser.special_tokens(CONTEXT),
    "tool_call_openers": lambda parser: parser.tool_call_openers(CONTEXT),
    "structural_tag": lambda parser: parser.structural_tag((), "auto"),
    "check_state": lambda parser: parser.check_state({}),
}


@pytest.mark.parametrize("hook", CALLS)
def test_what_a_plugin_raises_is_told_with_its_name(hook: str) -> None:
    def raising() -> None:
        raise KeyError("boom")

    function = (lambda delta: raising()) if hook == "parse_delta" else raising
    parser = make_parser("tool", "boom", plugin(**{hook: function}))
    with pytest.raises(ParserError, match=r"tool parser 'boom' raised KeyError.*boom") as error:
        CALLS[hook](parser)
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        ("prompt_opens_reasoning", "yes"),
        ("prompt_opens_reasoning", 1),
        ("special_tokens", "<think>"),
        ("special_tokens", (1,)),
        ("tool_call_openers", "<call>"),
        ("structural_tag", "x"),
        ("check_state", False),
    ],
)
def test_other_hooks_are_held_to_their_types(hook: str, value: Any) -> None:
    parser = make_parser("tool", "odd", plugin(**{hook: lambda: value}))
    with pytest.raises(ParserError, match=f"tool parser 'odd' returned from derender_{hook}"):
        CALLS[hook](parser)


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (None, "None"),
        (object(), "derender_parse_delta"),
        (plugin(parse_delta=lambda delta, extra: None), "extra"),
        (plugin(parse_delta=lambda state: None), "delta"),
        (plugin(special_tokens=lambda prompt: None), "prompt"),
        (plugin(parse_everything=lambda delta: None), "parse_everything"),
    ],
)
def test_plugins_that_do_not_fit_are_refused(broken: object, word: str) -> None:
    with pytest.raises(BrokenParserError, match=word):
        make_parser("tool", "broken", broken)


def test_hooks_may_take_any_of_their_parameters() -> None:
    spec = inspect.signature(HookSpecs.derender_parse_delta)
    assert list(spec.parameters) == ["self", "state", "delta", "context"]
    for function in (  # type: ignore[var-annotated]
        lambda delta: Step({}, ()),
        lambda context, delta: Step({}, ()),
        lambda state, delta: Step({}, ()),
    ):
        assert make_parser("tool", "any", plugin(parse_delta=function)).parse_delta(None, DELTA, CONTEXT) == Step(
            {}, ()
        )


def test_a_plugin_may_be_a_namespace_an_instance_a_class_or_a_module() -> None:
    def parse(delta: Delta) -> Step:
        return Step({}, (Text(delta.text),))

    class Static:
        derender_parse_delta = staticmethod(hookimpl(parse))

    class Bound:
        @hookimpl
        def derender_parse_delta(self, delta: Delta) -> Step:
            return parse(delta)

    class ByClass:
        @classmethod
        @hookimpl
        def derender_parse_delta(cls, delta: Delta) -> Step:
            return parse(delta)

    class Plain:
        @hookimpl
        def derender_parse_delta(delta) -> Step:  # type: ignore[no-untyped-def]  # noqa: N805
            return parse(delta)

    namespace = SimpleNamespace(derender_parse_delta=hookimpl(parse))
    for each in (namespace, Static, Static(), Bound(), ByClass, ByClass(), Plain):
        assert make_parser("tool", "any", each).extract(DELTA, CONTEXT) == [Text("x")]
    with pytest.raises(BrokenParserError, match="name an instance of it"):
        make_parser("tool", "any", Bound)


def test_machine_plugins_describe_themselves() -> None:
    made = load_parser("reasoning", "qwen3").plugin
    assert isinstance(made, MachinePlugin)
    assert repr(made) == "MachinePlugin(Qwen3)"
    assert made.description.startswith("Reasoning in <think> tags")
    assert "\n" not in made.description
