"""What a parser is given: the context and the prompt's current turn."""

from __future__ import annotations

import pytest

from derender_core import ParseContext, Prompt, Tool
from derender_core.inputs import TURN_MARKERS


def test_context_names_the_forced_function() -> None:
    assert ParseContext(tool_choice="function:get:it").forced_name == "get:it"
    assert [ParseContext(tool_choice=choice).forced_name for choice in ("none", "auto", "required")] == [None] * 3
    assert ParseContext(tools=(Tool("a"), Tool("b"))).tool_names == {"a", "b"}


@pytest.mark.parametrize("marker", TURN_MARKERS)
def test_only_the_current_turn_counts(marker: str) -> None:
    prompt = Prompt(f"{marker}user says <think> and </think>{marker}assistant\n<think>\n")
    assert prompt.current_turn == "assistant\n<think>\n"
    assert prompt.last_of("<think>", "</think>") == "<think>"
    assert Prompt(f"<think>{marker}Hi").last_of("<think>", "</think>") is None


def test_the_last_marker_wins() -> None:
    turn = Prompt("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert turn.last_of("<think>", "</think>") == "</think>"
    assert turn.last_of("<think>") == "<think>"
    assert turn.last_of("<thought>") is None
    assert turn.last_of() is None


def test_without_a_turn_marker_all_is_the_turn() -> None:
    assert Prompt("plain <think>").last_of("<think>") == "<think>"
    assert Prompt("").current_turn == ""


def test_reads_no_more_of_the_end_than_it_needs() -> None:
    words = ["<|im_start|>", *["old"] * 1000, "<|im_start|>", *["new"] * 100, "<think>"]
    asked = []

    def tail(count: int) -> tuple[str, bool]:
        asked.append(count)
        return " ".join(words[-count:]), count >= len(words)

    prompt = Prompt(tail)
    assert asked == []
    assert prompt.last_of("<think>", "</think>") == "<think>"
    assert prompt.current_turn.count("new") == 100
    assert "old" not in prompt.current_turn
    assert asked == [4, 32, 256]  # asked once, and not for everything


def test_reads_all_when_there_is_no_turn_marker() -> None:
    words = ["<think>", *["word"] * 5000]
    prompt = Prompt(lambda count: (" ".join(words[-count:]), count >= len(words)))
    assert prompt.last_of("<think>") == "<think>"
