"""Bodies made from our own OpenAPI document, good ones and wrong ones: answers are as the document says. Item 9."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from derender_server.app import create_app
from derender_server.settings import Settings

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def schema():
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(model="demo")))


@pytest.mark.rule("8.3")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_answers_as_the_document_says(schema, fuzz_factor, capsys, mode):
    statuses = Counter()
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode is GenerationMode.NEGATIVE and not list(operation.body):
            continue  # there is nothing to send that could be wrong

        @settings(max_examples=20 * fuzz_factor, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(generation_mode=mode))
        def run(case):
            response = case.call()
            statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)
            assert "Traceback" not in response.text

        run()
    told = ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items()))
    with capsys.disabled():
        print(f"\nOpenAPI document, {mode.value} data: {statuses.total()} cases ({told})", end="", flush=True)
    assert statuses.total() > 100
