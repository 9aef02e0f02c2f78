"""Benchmarks: each a command that prints a table, and writes JSON with ``--json PATH``.

    python -m benchmarks.stream        a derendered chunk over HTTP, along an output of 10,000 tokens
    python -m benchmarks.oneshot       whole outputs over HTTP, logprobs included
    python -m benchmarks.parsers       every built-in parser, without a server
    python -m benchmarks.detokenize    ids to text, next to ``tokenizers``' own decode
    python -m benchmarks.render        chats to token ids, next to ``tokenizers``' own encode
    python -m benchmarks.memory        start-up time and resident memory
    python -m benchmarks.load          many streams at once, and who else gets an answer meanwhile
    python -m benchmarks               all of them, and one table of the targets

``--quick`` takes a few seconds. ``--url URL`` measures another server of the protocol beside ours, where a server is
measured. Times depend on the machine, so targets are ratios of what was measured in one run. docs/performance.md
tells what was found.
"""
