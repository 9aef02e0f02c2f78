"""All benchmarks, one after the other, and the targets of all of them in one table."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import detokenize, gateway, load, memory, oneshot, parsers, render, stream
from benchmarks.report import TARGET_HEADS, arguments, print_table
from benchmarks.workload import find_model


def main() -> None:
    """The command."""
    parser = arguments(__doc__, url=True)
    parser.add_argument("--svg", type=Path, metavar="PATH", help="draw the cost along the output there")
    given = parser.parse_args()
    model, quick, url = find_model(), given.quick, given.url
    reports = [
        stream.run(model, quick=quick, url=url, svg=given.svg),
        oneshot.run(model, quick=quick, url=url),
        parsers.run(model, quick=quick),
        detokenize.run(model, quick=quick),
        render.run(model, quick=quick, url=url),
        memory.run(model, quick=quick),
        load.run(model, quick=quick, url=url),
        gateway.run(model, quick=quick),
    ]
    targets = sorted((target for report in reports for target in report.targets), key=lambda target: target.item)
    print_table("Targets", TARGET_HEADS, [target.row() for target in targets])
    if given.json:
        results = [report.as_json() for report in reports]
        given.json.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
