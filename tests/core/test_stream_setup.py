"""What a request's streams share: the prompt's end is asked about once, the rest of the prompt whenever it matters."""

from __future__ import annotations

import pytest

from derender_core import ModelTokenizer, ParseContext, Pipeline, load_parser
from derender_core.inputs import ENDING
from derender_core.stream_setup import StreamSetup
from derender_server.model import DEMO_DIRECTORY


@pytest.fixture(scope="module")
def tokenizer() -> ModelTokenizer:
    return ModelTokenizer.load(DEMO_DIRECTORY)


@pytest.fixture
def setup(tokenizer: ModelTokenizer) -> StreamSetup:
    return StreamSetup(tokenizer, Pipeline(None, load_parser("reasoning", "deepseek_r1")), ParseContext())


def test_prompts_that_end_alike_are_asked_about_once(setup: StreamSetup, tokenizer: ModelTokenizer) -> None:
    ending = tokenizer.encode("<|im_start|>assistant\n<think>\n")[-ENDING:]
    one, other = tokenizer.encode("one")[:1] * 9 + ending, tokenizer.encode("other")[:1] * 5 + ending
    assert setup.open(one).reasoning_open is True
    assert setup.open(other) is setup.open(one)


def test_a_marker_further_up_counts_though_the_ends_are_alike(setup: StreamSetup, tokenizer: ModelTokenizer) -> None:
    said = tokenizer.encode("well so far so good and so on")
    assert len(said) > ENDING
    turn = "<|im_start|>assistant\n"
    opened, closed = (tokenizer.encode(turn + marker) + said for marker in ("<think>", "<think></think>"))
    assert opened[-ENDING:] == closed[-ENDING:]
    for _ in range(2):
        assert setup.open(opened).reasoning_open is True
        assert setup.open(closed).reasoning_open is False
