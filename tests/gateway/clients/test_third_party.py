"""LangChain's chat model and LiteLLM against the gateway, in an environment of their own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gateway.clients.conftest import CALL, THOUGHT

SCRIPT = Path(__file__).with_name("third_party.py")
ANSWER = "Sunny, and 21 degrees – ☀️."
WEATHER = {"city": "Oslo", "degrees": 21}
CLIENTS = ("langchain-openai>=1", "litellm>=1.80")


def test_langchain_and_litellm(gateway, uv):
    call = THOUGHT + CALL.format("Oslo") + "\n" + CALL.format("Rome")
    given = [f"{gateway.url}/v1", THOUGHT + ANSWER, call, json.dumps(WEATHER)]
    packages = [part for name in CLIENTS for part in ("--with", name)]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}
    printed = uv("run", "--isolated", "--no-project", *packages, "python", SCRIPT, *given, **offline)
    found = json.loads(printed.strip().splitlines()[-1])
    calls = [{"city": "Oslo"}, {"city": "Rome"}]
    both = {"plain": ANSWER, "streamed": ANSWER, "calls": calls, "streamed calls": calls}
    assert found == {"langchain": {**both, "structured": WEATHER}, "litellm": both}
