"""Chats to token ids, next to ``tokenizers``' own encode of the same text."""

from __future__ import annotations

from functools import partial

from benchmarks.client import Connection
from benchmarks.report import Report, arguments, interleave, milliseconds, ratio
from benchmarks.server import started
from benchmarks.workload import CHAT_REQUEST, Model, encode, find_model, prose
from derender_server.model import ServedModel
from derender_server.renderer import Renderer

__all__ = ["run"]

RENDER, RAW = "/v1/chat/completions/render", "/noop/raw"
LONG = 100_000


def run(model: Model, *, quick: bool = False, url: str | None = None) -> Report:
    """Measure, print and return it."""
    report = Report("render", model.name)
    renderer = Renderer(ServedModel.load(model.directory, max_model_len=model.max_model_len))
    library = model.tokenizer.tokenizer
    rows, shown = [], []
    sizes = (1000, 10_000) if quick else (1000, 10_000, LONG)
    with started(model) as server, Connection(server.url) as connection:
        for size in sizes:
            chat = _chat(size)
            rendered = renderer.render_chat(chat)
            text = model.tokenizer.decode(rendered.token_ids, skip_special_tokens=False)
            body = encode(chat)
            things = {
                "render": partial(renderer.render_chat, chat),
                "encode": partial(library.encode, text, add_special_tokens=False),
                "over HTTP": partial(connection.post, RENDER, body),
                "raw no-op": partial(connection.post, RAW, body),
            }
            interleave(things, 2)
            got = interleave(things, 5 if quick else 25)
            over = ratio(got, "render", "encode")
            times = (got[name].median for name in things)
            rows.append([size, len(rendered.token_ids), *map(milliseconds, times), f"{over:.2f}"])
            if url:
                with Connection(url) as other:
                    there = interleave({"other": partial(other.post, RENDER, body)}, 5)["other"].median
                shown.append([size, milliseconds(got["over HTTP"].median), milliseconds(there)])
            if size == sizes[-1]:
                report.target(7, f"render of {size} characters / Tokenizer.encode", over, 1.2)
    heads = ("characters", "ids", "render ms", "encode ms", "over HTTP ms", "raw no-op ms", "render/encode")
    report.table("Rendering a chat", heads, rows)
    if shown:
        report.table(url or "", ("characters", "ours ms", "other ms"), shown)
    return report


def _chat(characters: int) -> dict[str, object]:
    """A chat whose messages have so many characters together."""
    text = prose(characters // 3)[:characters]
    half = len(text) // 2
    messages = [
        {"role": "user", "content": text[:half]},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": text[half:]},
    ]
    return {"messages": messages, "tools": CHAT_REQUEST["tools"]}


def main() -> None:
    """The command."""
    given = arguments(__doc__, url=True).parse_args()
    run(find_model(), quick=given.quick, url=given.url).close(given.json)


if __name__ == "__main__":
    main()
