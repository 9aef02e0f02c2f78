"""Parsers that fail or hang cost their own answer, and the client is told."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio

MOODY = """
from derender_core import Step, Text, hookimpl

class Moody:
    "Does as the output says."

    @hookimpl
    def derender_parse_delta(self, delta):
        if "raise" in delta.text:
            raise LookupError("moody today")
        while "loop" in delta.text:
            pass
        return Step({}, (Text(delta.text),) if delta.text else ())

plugin = Moody()
"""
REQUEST = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "ring"}}],
}
PARSER = {"tool_call_parser": "moody", "enable_auto_tool_choice": True}


@pytest.fixture(autouse=True)
def moody(install):
    install("gateway_moods", "moody = gateway_moods:plugin", MOODY)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("mood", "settings", "part"),
    [
        ("raise", {}, "tool parser 'moody' of gateway_moods raised LookupError"),
        ("raise", {"plugin_timeout": 30}, "tool parser 'moody' of gateway_moods raised LookupError"),
        ("loop", {"plugin_timeout": 0.3}, "tool parser 'moody' of gateway_moods took longer than the 0.3 s"),
    ],
)
async def test_a_parser_that_fails(serve, mood, settings, part, stream):
    async with serve(**PARSER, **settings) as served:
        steps = [*served.chunks("fine so far ", finish_reason=None), *served.chunks(served.ids(f" {mood}"), size=9)]
        whole = served.response(f"please {mood}")
        served.engines.play(
            steps if stream else whole, served.chunks("well", size=9) if stream else served.response("well")
        )
        failed = await served.post("/v1/chat/completions", REQUEST | {"stream": stream})
        well = await served.post("/v1/chat/completions", REQUEST | {"stream": stream})
        text, _ = served.app.state.services.metrics.text("")
    error = failed.events[-2][1]["error"] if stream else failed.json["error"]
    assert (failed.status, error["code"]) == (200 if stream else 500, 500)
    assert part in error["message"]
    assert b"well" in well.received
    kind = "timeout" if mood == "loop" else "derender_parse_delta"
    wanted = f'derender_parser_errors_total{{kind="{kind}",parser="moody",slot="tool"}} 1.0'
    assert wanted.encode() in text
    if stream:
        assert failed.data[-1] == "[DONE]"
        assert failed.data[0]["choices"][0]["delta"]["content"]


async def test_prompts_on_several_threads_are_counted_right(serve):
    """All chunks are pushed on the guard's threads then, those of several prompts at the same time."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    request = {"prompt": ["a"] * 4, "stream": True, "stream_options": options}
    async with serve(plugin_timeout=30, renderer_num_workers=4) as served:
        served.engines.play(*[served.chunks("some words and more") for _ in range(4)])
        call = await served.post("/v1/completions", request)
        tokens = 4 * len(served.ids("some words and more"))
    counts = [data["usage"]["completion_tokens"] for data in call.data[:-1]]
    assert counts[-1] == tokens
    assert max(counts) == tokens
