"""Settings: frozen, checked, and handed to worker processes. WIRE.md section 7."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from derender_server.settings import METRICS_VARIABLE, WORKER_VARIABLE, Settings, names_collector, shared_metrics

FLAGS = """
host port uds served_model_name tool_call_parser reasoning_parser enable_auto_tool_choice chat_template
chat_template_content_format default_chat_template_kwargs trust_request_chat_template max_model_len max_logprobs
max_choices renderer_num_workers workers api_key root_path ssl_keyfile ssl_certfile log_level reasoning_field
stream_tool_calls state_secret
"""


@pytest.mark.rule("7.4")
def test_every_flag_of_the_protocol_is_a_setting():
    assert set(FLAGS.split()) <= set(Settings.model_fields)
    assert all(info.description for info in Settings.model_fields.values())


def test_settings_do_not_change():
    settings = Settings(model="demo")
    with pytest.raises(ValidationError):
        settings.port = 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70000},
        {"workers": 0},
        {"max_logprobs": -2},
        {"reasoning_field": "thoughts"},
        {"stream_tool_calls": "no"},
        {"default_chat_template_kwargs": {"messages": []}},
        {"colour": "red"},
    ],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Settings(model="demo", **wrong)


def test_the_demo_has_its_parsers_unless_others_are_given():
    demo = Settings(model="demo").with_demo_defaults()
    assert (demo.tool_call_parser, demo.reasoning_parser, demo.enable_auto_tool_choice) == ("hermes", "qwen3", True)
    own = Settings(model="demo", reasoning_parser="deepseek_r1").with_demo_defaults()
    assert (own.tool_call_parser, own.reasoning_parser, own.enable_auto_tool_choice) == (None, "deepseek_r1", False)
    other = Settings(model="else").with_demo_defaults()
    assert other.tool_call_parser is None


def test_secrets_are_not_shown():
    shown = repr(Settings(model="demo", api_key=("k3y",), state_secret="s3cret"))
    assert "k3y" not in shown
    assert "s3cret" not in shown


def test_worker_processes_get_the_same_settings(monkeypatch):
    monkeypatch.setenv(WORKER_VARIABLE, "")
    monkeypatch.setenv(METRICS_VARIABLE, "")  # so that what is set here is undone
    monkeypatch.delenv(METRICS_VARIABLE)
    settings = Settings(model="demo", api_key=("a", "b"), default_chat_template_kwargs={"x": 1}, state_secret="s")
    assert shared_metrics() is None
    settings.hand_to_workers("here")
    assert Settings.of_worker(os.environ) == settings
    assert shared_metrics() == "here"
    settings.hand_to_workers("there")
    assert shared_metrics() == "here", "what the operator chose stays"


def test_traces_go_where_opentelemetrys_variables_say(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert not names_collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces")
    assert names_collector()
