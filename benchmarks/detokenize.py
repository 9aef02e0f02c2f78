"""Ids to text without a server: whole, in pieces of one token, and as text, next to ``tokenizers``' own decode."""

from __future__ import annotations

import statistics

from tokenizers.decoders import DecodeStream

from benchmarks.report import Report, arguments, interleave, microseconds, milliseconds
from benchmarks.workload import Model, find_model

__all__ = ["run"]


def run(model: Model, *, quick: bool = False) -> Report:
    """Measure, print and return it."""
    report = Report("detokenize", model.name)
    rows = []
    tokenizer = model.tokenizer
    library = tokenizer.tokenizer
    detokenizer = tokenizer.detokenizer(frozenset())
    for count in (100, 2000) if quick else (100, 1000, 10_000, 100_000):
        ids = model.prose_ids(count)

        def by_token(ids: list[int] = ids) -> None:
            state = detokenizer.start(None)
            for token_id in ids:
                _, state = detokenizer.push(state, [token_id])

        def library_by_token(ids: list[int] = ids) -> None:
            stream = DecodeStream(skip_special_tokens=True)
            for token_id in ids:
                stream.step(library, token_id)  # type: ignore[arg-type]  # the stub names a narrower type

        things = {
            "whole": lambda ids=ids: tokenizer.decode(ids),
            "library": lambda ids=ids: library.decode(ids),
            "by token": by_token,
            "library by token": library_by_token,
        }
        got = interleave(things, 3 if quick else max(3, 30_000 // count))
        assert tokenizer.decode(ids) == library.decode(ids)
        rows.append(
            [
                count,
                milliseconds(got["whole"].median),
                milliseconds(got["library"].median),
                microseconds(got["by token"].median / count),
                microseconds(got["library by token"].median / count),
            ]
        )
        report.data[str(count)] = {name: statistics.median(sample.times) for name, sample in got.items()}
    heads = ("ids", "whole ms", "library's ms", "by token us/id", "library's us/id")
    report.table("Detokenizing prose", heads, rows)
    return report


def main() -> None:
    """The command."""
    given = arguments(__doc__).parse_args()
    run(find_model(), quick=given.quick).close(given.json)


if __name__ == "__main__":
    main()
