"""States that come back from outside: honest ones go on, tampered ones are refused or parsed, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from derender_core import (
    ModelTokenizer,
    ParseContext,
    Pipeline,
    StateError,
    StopStrings,
    Stream,
    Tool,
    load_parser,
)

TOOLS = (Tool("ping", {"type": "object"}), Tool("note"))
CALL = '<tool_call>\n{"name": "ping", "arguments": {"a": "é </tool_call>", "b": [1, {"c": null}]}}\n</tool_call>'
SECTION = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n"
    '{"kg": 4}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n{bad<｜tool▁call▁end｜>'
)
OUTPUTS: dict[str, tuple[str, str | None, str]] = {
    "hermes": ("hermes", "qwen3", f'<think>\nHm {CALL}\n</think>\n\nText {{"a": 1}} {CALL} more <tool_call>{{"x'),
    "deepseek": ("deepseek_v3", "deepseek_r1", f"Hm.\n</think>\n\n{SECTION}"),
    "held": ("deepseek_v3", "deepseek_r1", f"Hm. {SECTION}"),
    "list": ("hermes", None, ' [{"name": "ping", "arguments": {"a": "b"}}, {"parameters": {}, "name": "note"}] end'),
    "named": ("hermes", None, '{"a": {"b": [1, 2.5e3, true]}} end'),
    "object": ("hermes", None, '{"name": "ping", "arguments": {}}'),
}
CHOICES = {"list": "required", "named": "function:ping", "object": "function:ping"}
STOP = StopStrings(("END OF TEXT", "more and more", "</tool_call> m"), min_tokens=3)
# What a tamperer may write where something else stood.
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 7, 199, 1 << 39, 1 << 70, -1, 0.5, "", "x", "{", "|v", "{|K", "[|V", "|,", "|.", "|!",
    "{|s", "arguments", "sent", "content", "json", "junk", "tail", "start", "held", "reasoning", "section", "native",
    "done", [], [[0, 1, 2]], [[5, 1, 2]], [1, 2], {}, {"phase": "json"}, '{"name": "ping", "arguments": {',
    '{"a":' * 900 + "1" + "}" * 900, "<tool_call>", "</think>", "<｜tool▁call▁begin｜>", "ed", "\ud800",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(make_byte_level: Callable[..., ModelTokenizer]) -> ModelTokenizer:
    return make_byte_level(b"</th", b'": "', b"ool_call>")


def _spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, item in items for spot in _spots(item, (*path, key)))]


def _tamper(rng: random.Random, state: dict[str, Any], fields: list[str]) -> Any:
    """A copy of a state with something in it replaced, removed, nudged or added."""
    state = deepcopy(state)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        spots = [spot for spot in _spots(state) if spot]
        if not spots:
            return deepcopy(rng.choice(VALUES))
        *parents, key = rng.choice(spots)
        holder: Any = state
        for parent in parents:
            holder = holder[parent]
        kind = rng.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1 and type(holder[key]) is int:
            holder[key] += rng.choice((-3, -1, 1, 2, 50))
        elif kind == 2 and isinstance(holder[key], str):
            at = rng.randrange(len(holder[key]) + 1)
            holder[key] = holder[key][:at] + rng.choice(("", "x", '"', "}", "{", "\\")) + holder[key][at + 1 :]
        elif kind == 3 and isinstance(holder, dict):
            holder[rng.choice(fields)] = deepcopy(rng.choice(VALUES))
        else:
            holder[key] = deepcopy(rng.choice(VALUES))
    return state


def _stream(tokenizer: ModelTokenizer, name: str, mode: str, stop: bool, state: Any = None) -> Stream:
    tool, reasoning, _ = OUTPUTS[name]
    pipeline = Pipeline(load_parser("tool", tool), load_parser("reasoning", reasoning) if reasoning else None)
    context = ParseContext(
        tools=TOOLS,
        tool_choice=CHOICES.get(name, "auto"),
        stream_tool_calls=mode,  # type: ignore[arg-type]
    )
    return Stream(tokenizer, pipeline, context, stop=STOP if stop else None, state=state)


def _states(tokenizer: ModelTokenizer, name: str, mode: str, stop: bool) -> list[tuple[dict[str, Any], list[int]]]:
    """Every state that a stream passes through, with the ids that follow it."""
    ids = list(OUTPUTS[name][2].encode())
    stream = _stream(tokenizer, name, mode, stop)
    states = []
    for at, token in enumerate(ids):
        stream.push([token])
        states.append((json.loads(json.dumps(stream.state)), ids[at + 1 :]))
    return states


@pytest.mark.parametrize("stop", [False, True], ids=["no stop", "stop"])
@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_tampered_states_are_refused_or_parsed(tokenizer: ModelTokenizer, name: str, mode: str, stop: bool) -> None:
    rng = random.Random(f"{name} {mode} {stop}")
    states = _states(tokenizer, name, mode, stop)
    fields = sorted({key for state, _ in states for spot in _spots(state) for key in spot if isinstance(key, str)})
    outcomes = {"refused": 0, "parsed": 0}
    for _ in range(400):
        state, rest = rng.choice(states)
        tampered = _tamper(rng, state, fields)
        try:
            stream = _stream(tokenizer, name, mode, stop, tampered if tampered is not None else {})
        except StateError:
            outcomes["refused"] += 1
            continue
        reason = rng.choice(("stop", "length", None))
        try:
            stream.push(rest[:3])
            assert isinstance(stream.state, dict)
            stream.push(rest[3:] if rng.random() < 0.5 else [], final=True, finish_reason=reason)
        except Exception as error:
            raise AssertionError(f"accepted, then {error!r}: {json.dumps(tampered)}") from error
        outcomes["parsed"] += 1
    assert min(outcomes.values()) > 30, outcomes


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_its_own_states_are_accepted_and_come_out_again(tokenizer: ModelTokenizer, name: str, mode: str) -> None:
    for state, _ in _states(tokenizer, name, mode, True):
        assert _stream(tokenizer, name, mode, True, state).state == state


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ([], "object"),
        ("x", "object"),
        ({"z": 1}, "unknown part 'z'"),
        ({"n": "1"}, "part 'n' of the wrong type"),
        ({"n": True}, "part 'n' of the wrong type"),
        ({"n": -1}, "count out of range"),
        ({"r": 1 << 40}, "count out of range"),
        ({"q": ["1"]}, "lengths"),
        ({"h": "EN", "m": [[0, 3, 1]]}, "marks"),
        ({"h": "EN", "m": [[2, 1, 1]]}, "marks"),
        ({"x": "never asked for"}, "other stop strings"),
        ({"p": {"z": {}}}, "part 'z'"),
        ({"p": {"t": {"phase": "nowhere"}}}, "unknown phase"),
        ({"p": {"t": {"sending": "arguments"}}}, "'sending'"),
        ({"p": {"t": {"scan": "|,"}}}, "'scan'"),
        ({"d": {"b": "zz"}}, "byte-level"),
    ],
)
def test_says_what_is_wrong(tokenizer: ModelTokenizer, state: Any, word: str) -> None:
    with pytest.raises(StateError, match="stream_state") as refused:
        _stream(tokenizer, "hermes", "whole", True, state)
    assert word in str(refused.value)


def test_refuses_held_text_when_the_stop_strings_are_gone(tokenizer: ModelTokenizer) -> None:
    stream = _stream(tokenizer, "hermes", "whole", True)
    stream.push(list(b"The END OF"))
    assert stream.state["h"] == "END OF"
    with pytest.raises(StateError, match="stop strings"):
        _stream(tokenizer, "hermes", "whole", False, stream.state)
