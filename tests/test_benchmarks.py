"""Each benchmark runs to its end and reports what it should. No time is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ITEMS = {
    "stream": {1, 2},
    "oneshot": {3, 5},
    "parsers": {4, 5},
    "detokenize": set(),
    "render": {7},
    "memory": {6},
    "load": {5, 6},
    "gateway": set(),
}


@pytest.mark.parametrize("name", ITEMS)
def test_runs(name: str, tmp_path: Path) -> None:
    results, picture = tmp_path / "results.json", tmp_path / "curve.svg"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(results)]
    if name == "stream":
        command += ["--svg", str(picture)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DERENDER_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(results.read_text(encoding="utf-8"))
    assert report["benchmark"] == name
    assert all(
        table["rows"] and all(len(row) == len(table["heads"]) for row in table["rows"]) for table in report["tables"]
    )
    assert {target["item"] for target in report["targets"]} == ITEMS[name]
    assert all(isinstance(target["value"], float) and isinstance(target["met"], bool) for target in report["targets"])
    for table in report["tables"]:
        assert table["title"] in done.stdout
    if name == "stream":
        svg = picture.read_text(encoding="utf-8")
        assert svg.startswith("<svg ")
        assert svg.count("<polyline ") == 2
