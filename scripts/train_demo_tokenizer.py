"""Train the demo model's tokenizer and write its files.

    python scripts/train_demo_tokenizer.py [--output DIRECTORY]

A byte-level BPE of a few thousand entries with the special tokens of the Qwen family, trained on the texts in
``scripts/demo_corpus``, which were written for this project. The result is the same on every run, and the tests hold
the files in the repository to it. ``chat_template.jinja`` is written by hand and stays as it is.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "scripts" / "demo_corpus"
OUTPUT = ROOT / "server" / "derender_server" / "demo" / "model"

BPE_SIZE = 4000
VOCAB_SIZE = 4096  # more rows than tokens, as real models have: the rest is padding
MAX_MODEL_LEN = 32768

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# In real checkpoints of the family these are added tokens too, but not special: decoding keeps them.
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

# Words with the blank before them, single digits, punctuation with the line ends after it, blanks. So tokens exist that
# end a JSON object and its line at once, which is what makes streams of real models awkward to cut.
WORDS = r" ?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

CITIES = ("Lisbon", "Oslo", "Kraków", "São Paulo", "Łódź", "Tokyo", "東京", "Київ", "القاهرة", "दिल्ली")
KEYS = ("city", "date", "query", "unit", "days", "limit", "count", "price", "enabled", "text", "language", "email")
VALUES: tuple[Any, ...] = (1, 3, 10, 21.5, 100, True, False, None, "celsius", "en", "2025-06-12", "09:30", [], {})


def corpus() -> Iterator[str]:
    """The training texts: the corpus files, then JSON made from a seeded generator."""
    for path in sorted(CORPUS.glob("*.txt")):
        yield path.read_text(encoding="utf-8").replace("\n", "\n\n" if path.stem == "english" else "\n")
    draw = random.Random(2025)
    for number in range(120):
        arguments = {key: draw.choice(VALUES) for key in draw.sample(KEYS, 4)} | {"city": draw.choice(CITIES)}
        call = {"name": f"tool_{number}", "arguments": arguments}
        yield json.dumps(call, ensure_ascii=False, indent=draw.choice((None, None, 2))) + "\n"


def train() -> Tokenizer:
    """The trained tokenizer, special tokens added."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BPE_SIZE,
        min_frequency=1,  # the corpus is small; rarer merges make words of one or two tokens, as in real vocabularies
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in (PAD, TURN_START, TURN_END)]
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in MARKERS])
    return tokenizer


def tokenizer_config() -> dict[str, Any]:
    """What ``transformers`` reads beside ``tokenizer.json``."""
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": TURN_END,
        "errors": "replace",
        "model_max_length": MAX_MODEL_LEN,
        "pad_token": PAD,
        "split_special_tokens": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def model_configs(tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """``config.json`` and ``generation_config.json``. There are no weights, so nothing describes layers."""
    turn_end, pad = tokenizer.token_to_id(TURN_END), tokenizer.token_to_id(PAD)
    return {
        "config.json": {
            "architectures": ["DerenderDemo"],
            "eos_token_id": turn_end,
            "max_position_embeddings": MAX_MODEL_LEN,
            "model_type": "derender-demo",
            "pad_token_id": pad,
            "vocab_size": VOCAB_SIZE,
        },
        "generation_config.json": {
            "do_sample": True,
            "eos_token_id": [turn_end, pad],
            "pad_token_id": pad,
            "temperature": 0.6,
            "top_k": 20,
            "top_p": 0.95,
        },
    }


def write(output: Path) -> None:
    """Train, and write every file but the chat template into ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size >= VOCAB_SIZE:
        raise SystemExit(f"{size} tokens leave no padding below VOCAB_SIZE {VOCAB_SIZE}; lower BPE_SIZE")
    (output / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    files = model_configs(tokenizer) | {"tokenizer_config.json": tokenizer_config()}
    for name, content in files.items():
        (output / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"{size} tokens, {(output / 'tokenizer.json').stat().st_size} bytes of tokenizer.json in {output}")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="directory to write to (default: the package's)")
    write(parser.parse_args().output)


if __name__ == "__main__":
    main()
