"""LangChain's chat model and LiteLLM against the gateway, in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.gateway.clients.conftest import CALL, THOUGHT

SCRIPT = Path(__file__).with_name("third_party.py")
ANSWER = "Sunny, and 21 degrees – ☀️."
WEATHER = {"city": "Oslo", "degrees": 21}
CLIENTS = ("langchain-openai>=1", "litellm>=1.80")


def test_langchain_and_litellm(gateway):
    call = THOUGHT + CALL.format("Oslo") + "\n" + CALL.format("Rome")
    given = [f"{gateway.url}/v1", THOUGHT + ANSWER, call, json.dumps(WEATHER)]
    packages = [part for name in CLIENTS for part in ("--with", name)]
    run = subprocess.run(
        ["uv", "run", "--isolated", "--no-project", *packages, "python", str(SCRIPT), *given],
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.strip().splitlines()[-1])
    calls = [{"city": "Oslo"}, {"city": "Rome"}]
    both = {"plain": ANSWER, "streamed": ANSWER, "calls": calls, "streamed calls": calls}
    assert found == {"langchain": {**both, "structured": WEATHER}, "litellm": both}
