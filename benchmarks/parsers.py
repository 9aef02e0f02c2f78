"""Every built-in parser without a server: whole outputs, one token at a time, and outputs made to be slow.

Units are what nobody can avoid: ``tokenizers``' own decode of the same ids, and an empty hook call through pluggy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pluggy

from benchmarks.report import Report, arguments, interleave, microseconds, milliseconds, ratio
from benchmarks.workload import ROOT, TOOLS, Model, find_model, prose
from derender_core import (
    Delta,
    ParseContext,
    Parser,
    Pipeline,
    Step,
    Stream,
    StreamSetup,
    Tool,
    hookimpl,
    list_parsers,
    load_parser,
    replay,
)
from derender_core.hookspecs import PROJECT, HookSpecs

__all__ = ["run"]

CONTEXT = ParseContext(
    tools=tuple(Tool(tool["function"]["name"], tool["function"]["parameters"]) for tool in TOOLS),
    stream_tool_calls="arguments",
)


class _Nothing:
    """A parser that does nothing: what a bare hook call costs."""

    step = Step({}, ())

    @hookimpl
    def derender_parse_delta(self, state: object, delta: Delta, context: ParseContext) -> Step:  # noqa: ARG002
        return self.step


def _bare_hook() -> Callable[[], object]:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    manager.register(_Nothing())
    hook, delta = manager.hook.derender_parse_delta, Delta("word")
    return lambda: hook(state=None, delta=delta, context=CONTEXT)


def _pipelines() -> Iterator[tuple[str, Pipeline]]:
    """Each built-in parser alone, and the pair that is served most."""
    for info in list_parsers():
        if info.distribution == "derender" and info.error is None:
            parser = load_parser(info.slot, info.name)
            yield f"{info.name} ({info.slot})", _alone(parser)
    yield "hermes + qwen3", _pair()


def _alone(parser: Parser) -> Pipeline:
    return Pipeline(parser, None) if parser.slot == "tool" else Pipeline(None, parser)


def _pair() -> Pipeline:
    return Pipeline(load_parser("tool", "hermes"), load_parser("reasoning", "qwen3"))


def _text(parser: Parser | None, tokens: int) -> str:
    """An output of the parser's format: prose, and a call as one of its golden cases writes it."""
    path = ROOT / "tests" / "data" / f"{parser.name if parser else ''}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    outputs = (
        case["output"]
        for case in map(json.loads, lines)
        if isinstance(case["output"], str) and len((case.get("expected") or {}).get("tool_calls") or ()) == 1
    )
    return f"{prose(tokens // 2)}\n\n{next(outputs, '')}"


def run(model: Model, *, quick: bool = False) -> Report:
    """Measure, print and return it."""
    report = Report("parsers", model.name)
    _whole(report, model, 1000 if quick else 30_000, 1 if quick else 9)
    _by_token(report, model, 100 if quick else 1000, 1 if quick else 9)
    _worst(report, model, 1 if quick else 10)
    return report


# -- a whole output ----------------------------------------------------------------------------------------------------


def _whole(report: Report, model: Model, tokens: int, rounds: int) -> None:
    decode = model.tokenizer.tokenizer.decode
    rows, worst = [], 0.0
    for name, pipeline in _pipelines():
        text = _text(pipeline.tool or pipeline.reasoning, tokens)
        if pipeline.reasoning is not None:
            text = f"<think>\n{text}\n</think>\n\n{text}"
        ids = model.tokenizer.encode(text)
        context = pipeline.open(CONTEXT, None)
        delta = Delta(text, final=True)
        got = interleave(
            {"decode": partial(decode, ids), "parse": partial(pipeline.extract, delta, context)},
            rounds,
        )
        over = ratio(got, "parse", "decode")
        worst = max(worst, over)
        rows.append(
            [name, len(ids), milliseconds(got["decode"].median), milliseconds(got["parse"].median), f"{over:.2f}"]
        )
    report.table("A whole output in one delta", ("parser", "ids", "decode ms", "parse ms", "parse/decode"), rows)
    report.target(4, "whole output: parse / Tokenizer.decode, worst parser", worst, 2)


# -- one token at a time -----------------------------------------------------------------------------------------------


def _by_token(report: Report, model: Model, tokens: int, rounds: int) -> None:
    bare, rows, of_pair = _bare_hook(), [], 0.0
    for name, pipeline in _pipelines():
        text = _text(pipeline.tool or pipeline.reasoning, tokens)
        parts = {"": text}
        if name == "hermes + qwen3":
            text = _text(pipeline.tool, tokens)
            written = {"name": "write_file", "arguments": {"path": "a", "content": prose(tokens // 2)}}
            call = json.dumps(written, ensure_ascii=False)  # as models do, whose chat templates write it so
            parts = {
                ", reasoning": "<think>\n" + prose(tokens // 2),
                ", answer": "\n</think>\n\n" + prose(tokens // 2),
                ", arguments": f"\n</think>\n\n<tool_call>\n{call}\n</tool_call>",
            }
        for part, output in parts.items():
            is_open = True if part.startswith((", answer", ", arguments")) else None
            context = replace(pipeline.open(CONTEXT, None), reasoning_open=is_open)
            deltas = [Delta(model.tokenizer.token_text(token_id)) for token_id in model.tokenizer.encode(output)]
            things: dict[str, Callable[[], object]] = {
                "bare": partial(_repeat, bare, len(deltas)),
                "parse": partial(_feed, pipeline, deltas, context),
            }
            got = interleave(things, rounds)
            over = ratio(got, "parse", "bare")
            each = got["parse"].median / len(deltas)
            rows.append([name + part, len(deltas), microseconds(each), f"{over:.1f}"])
            if part:
                of_pair = max(of_pair, over / 2)
    heads = ("parser", "deltas", "us per delta", "bare hook calls")
    report.table("One token a delta", heads, rows)
    report.target(4, "one token through both slots / two bare pluggy calls, worst phase", of_pair, 4)


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


def _feed(pipeline: Pipeline, deltas: list[Delta], context: ParseContext) -> None:
    state = None
    for delta in deltas:
        state = pipeline.parse_delta(state, delta, context).state


# -- outputs made to be slow -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hard:
    """An output whose size can be chosen.

    Args:
        name: what it is.
        text: the output, by size.
        size: the full size.
        streamed: one token at a time; else in one delta.
        held: calls are sent whole.
    """

    name: str
    text: Callable[[int], str]
    size: int
    streamed: bool = False
    held: bool = False


def _argument(size: int) -> str:
    return (
        '<tool_call>\n{"name": "write_file", "arguments": {"content": "'
        + "lorem ipsum " * (size // 12)
        + '"}}\n</tool_call>'
    )


def _calls(count: int) -> str:
    return '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>\n' * count


def _unclosed(count: int) -> str:
    return "<" * count


SHORT_RUN = 0.1
"""Seconds; what takes less is taken more often, since the machine changes its speed."""

HARD = (
    _Hard("1 MB argument string", _argument, 1_000_000),
    _Hard("1 MB argument string, by token", _argument, 1_000_000, streamed=True),
    _Hard("10,000 tiny calls", _calls, 10_000),
    _Hard("10,000 tiny calls, by token", _calls, 10_000, streamed=True),
    _Hard("100,000 unclosed <", _unclosed, 100_000),
    _Hard("100,000 unclosed <, by token", _unclosed, 100_000, streamed=True),
    _Hard("a call of 100 KB held to the end, by token", lambda size: _argument(size)[:-20], 100_000, True, True),
)


def _worst(report: Report, model: Model, scale: int) -> None:
    runs = {hard.name: partial(_hard_run, model, hard, hard.size * scale // 10) for hard in HARD}
    runs["replay of 10,000 one-token chunks"] = partial(_replay_run, model, 1000 * scale)
    rows, worst = [], 0.0
    for name, run_of in runs.items():
        things = {"half": run_of(2), "whole": run_of(1)}
        begun = time.perf_counter()
        things["half"]()
        short = time.perf_counter() - begun < SHORT_RUN
        got = interleave(things, 15 if short else 3)
        growth = ratio(got, "whole", "half")
        worst = max(worst, growth)
        rows.append([name, *(milliseconds(sample.median) for sample in got.values()), f"{growth:.2f}"])
    title = "Outputs made to be slow, ids to events" + ("" if scale == 10 else f", at {scale}/10 of their size")
    report.table(title, ("what", "half ms", "whole ms", "whole/half"), rows)
    report.target(5, "twice the size / time of the worst case", worst, 2.5)


def _hard_run(model: Model, hard: _Hard, size: int, share: int) -> Callable[[], None]:
    """Parses such an output of ``size / share``."""
    context = replace(CONTEXT, stream_tool_calls="whole" if hard.held else "arguments")
    setup = StreamSetup(model.tokenizer, _pair(), context)
    ids = model.tokenizer.encode(hard.text(size // share))
    pieces = [ids[at : at + 1] for at in range(len(ids))] if hard.streamed else [ids]

    def parse() -> None:
        stream = Stream.of(setup, prompt_token_ids=model.prompt)
        for piece in pieces:
            stream.push(piece)
        stream.push([], final=True, finish_reason="stop")

    return parse


def _replay_run(model: Model, chunks: int, share: int) -> Callable[[], None]:
    """Replays an output of ``chunks / share`` tokens, one a chunk."""
    setup, ids = StreamSetup(model.tokenizer, _pair(), CONTEXT), model.output(chunks // share)
    return lambda: replay(Stream.of(setup, prompt_token_ids=model.prompt), ids, [1] * len(ids))


def main() -> None:
    """The command."""
    given = arguments(__doc__).parse_args()
    run(find_model(), quick=given.quick).close(given.json)


if __name__ == "__main__":
    main()
