"""Folding events into a message, and joining neighbours."""

from derender_core import (
    Message,
    Reasoning,
    Special,
    Text,
    ToolCall,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    fold_message,
    merge_events,
)


def test_nothing_is_null() -> None:
    assert fold_message([]) == Message(None, None, ())


def test_folds_in_order() -> None:
    events = [
        Reasoning("Hm"),
        Text("a "),
        ToolCallStart(0, "f", "id-0"),
        ToolCallArguments(0, '{"x"'),
        Reasoning(" and"),
        ToolCallArguments(0, ": 1}"),
        ToolCallEnd(0),
        Text("b"),
        ToolCallStart(1, "g"),
        ToolCallEnd(1),
    ]
    calls = (ToolCall("f", '{"x": 1}', "id-0"), ToolCall("g", ""))
    assert fold_message(events) == Message("a b", "Hm and", calls)


def test_a_call_that_never_ended_does_not_count() -> None:
    events = [ToolCallStart(0, "f"), ToolCallArguments(0, "{"), ToolCallStart(1, "g"), ToolCallEnd(1)]
    assert fold_message(events).tool_calls == (ToolCall("g", ""),)


def test_merges_neighbours_of_one_kind() -> None:
    events = [
        Text("a"),
        Text("b", (Special(0, 1, 7),)),
        Reasoning("c"),
        Reasoning("d"),
        ToolCallStart(0, "f"),
        ToolCallArguments(0, "{"),
        ToolCallArguments(0, "}"),
        ToolCallArguments(1, "{"),
        Text("e"),
    ]
    merged = merge_events(events)
    assert merged == [
        Text("ab"),
        Reasoning("cd"),
        ToolCallStart(0, "f"),
        ToolCallArguments(0, "{}"),
        ToolCallArguments(1, "{"),
        Text("e"),
    ]
    assert isinstance(merged[0], Text)
    assert merged[0].specials == (Special(1, 2, 7),)
    assert merge_events(merged) == merged
    assert events[0] == Text("a")
