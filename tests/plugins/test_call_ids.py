"""Ids of calls where the format prescribes them: the model's own where it has the right form, at every cut."""

import pytest

from derender_core import Delta, ParseContext, Pipeline, Tool, fold_message, load_parser
from derender_core.testing import all_cuts, feed

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
TOOLS = (Tool("ring"), Tool("mix"))


def kimi(*ids: str) -> str:
    calls = (f"<|tool_call_begin|>{one}<|tool_call_argument_begin|>{{}}<|tool_call_end|>" for one in ids)
    return SECTION + "".join(calls) + SECTION_END


CASES = [
    ("mistral", "[TOOL_CALLS]ring[CALL_ID]a1B2c3D4e[ARGS]{}[TOOL_CALLS]mix[ARGS]{}", ["a1B2c3D4e", None]),
    ("mistral", "[TOOL_CALLS]ring[CALL_ID] a1B2c3D4e [ARGS]{}", ["a1B2c3D4e"]),
    ("mistral", "[TOOL_CALLS]ring[CALL_ID]a1B2c3D4[ARGS]{}", [None]),
    ("mistral", "[TOOL_CALLS]ring[CALL_ID]a1B2-3D4e[ARGS]{}", [None]),
    ("mistral", '[TOOL_CALLS][{"name": "ring", "arguments": {}, "id": "a1B2c3D4e"}]', [None]),
    ("kimi_k2", kimi("functions.ring:7", "functions.mix:8"), ["functions.ring:7", "functions.mix:8"]),
    (
        "kimi_k2",
        kimi("ring:7", "functions.mix", "call_ring"),
        [f"functions.{n}" for n in ("ring:0", "mix:1", "ring:2")],
    ),
    ("kimi_k2", kimi(" functions.ring:7\n"), ["functions.ring:7"]),
    ("kimi_k2", kimi("functions.the_ring:7"), ["functions.ring:0"]),
    ("cohere_command3", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "ring"}]<|END_ACTION|>', [None]),
]


@pytest.mark.parametrize("mode", ["whole", "arguments"])
@pytest.mark.parametrize(("name", "text", "ids"), CASES)
def test_ids(name: str, text: str, ids: list[str | None], mode: str) -> None:
    pipeline = Pipeline(tool=load_parser("tool", name))
    context = ParseContext(tools=TOOLS, stream_tool_calls=mode)  # type: ignore[arg-type]
    for cut in all_cuts(Delta(text, final=True, finish_reason="stop"), pairs=True):
        message = fold_message(feed(pipeline, cut, context).events)
        assert [call.id for call in message.tool_calls] == ids, cut.name
