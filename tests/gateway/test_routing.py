"""Which engine is asked."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from derender_server.gateway.engine import MAX_FAILURES, Engine
from derender_server.gateway.routing import EXPECTED_OUTPUT, PREFIX_TOKENS, expected_tokens, in_order
from derender_server.wire.generate import GenerateRequest, SamplingParams


@pytest.fixture
def engines():
    return [Engine(f"http://engine-{number}", session=None) for number in range(4)]


def request(token_ids=(1, 2, 3), *, n=1, max_tokens=10):
    sampling = SamplingParams(n=n, max_tokens=max_tokens)
    return GenerateRequest(request_id="r", token_ids=list(token_ids), sampling_params=sampling, model="demo")


def prompts(count):
    numbers = random.Random(3)
    return [[numbers.randrange(1000) for _ in range(PREFIX_TOKENS)] for _ in range(count)]


def test_a_request_is_expected_to_take_its_prompt_and_its_outputs():
    assert expected_tokens(request(n=2, max_tokens=10)) == 3 + 2 * 10
    assert expected_tokens(request(max_tokens=10**6)) == 3 + EXPECTED_OUTPUT


def test_the_engine_with_the_fewest_outstanding_tokens_comes_first(engines):
    for engine, tokens in zip(engines, (30, 10, 40, 20), strict=True):
        engine.begin(tokens)
    assert in_order(engines, request(), "least") == [engines[1], engines[3], engines[0], engines[2]]
    engines[2].end(40)
    assert in_order(engines, request(), "least")[0] is engines[2]


def test_engines_that_are_out_come_last_but_do_come(engines):
    engines[0].failed(unreachable=True)
    for engine in engines[1:]:
        engine.begin(100)
    for routing in ("least", "prefix"):
        assert in_order(engines, request(), routing)[-1] is engines[0]
        assert sorted(in_order(engines, request(), routing), key=engines.index) == engines


def test_an_engine_is_out_after_failures_in_a_row_only(engines):
    engine = engines[0]
    for _ in range(MAX_FAILURES - 1):
        engine.failed()
    engine.succeeded()
    for _ in range(MAX_FAILURES - 1):
        engine.failed()
    assert engine.healthy
    engine.failed()
    assert not engine.healthy


def test_the_same_beginning_goes_to_the_same_engine(engines):
    homes = Counter()
    for prompt in prompts(200):
        first = in_order(engines, request(prompt), "prefix")[0]
        assert in_order(engines, request([*prompt, 5, 6]), "prefix")[0] is first
        assert in_order(list(reversed(engines)), request([*prompt, 7]), "prefix")[0] is first
        homes[first.url] += 1
    assert len(homes) == 4
    assert min(homes.values()) > 20


def test_when_an_engine_is_out_only_its_own_beginnings_move_and_they_come_back(engines):
    asked = [request(prompt) for prompt in prompts(100)]
    before = [in_order(engines, one, "prefix")[0] for one in asked]
    engines[2].failed(unreachable=True)
    meanwhile = [in_order(engines, one, "prefix")[0] for one in asked]
    assert all(new is old for old, new in zip(before, meanwhile, strict=True) if old is not engines[2])
    assert engines[2] not in meanwhile
    engines[2].healthy = True
    assert [in_order(engines, one, "prefix")[0] for one in asked] == before


def test_a_beginning_leaves_an_engine_that_is_far_busier_than_the_idlest(engines):
    home = in_order(engines, request(), "prefix")[0]
    home.begin(8000)
    assert in_order(engines, request(), "prefix")[0] is home
    home.begin(8000)
    assert in_order(engines, request(), "prefix")[0] is not home
    for engine in engines:
        engine.begin(8000)
    assert in_order(engines, request(), "prefix")[0] is home
