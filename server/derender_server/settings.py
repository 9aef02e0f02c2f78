"""The server's settings: one frozen model, filled from flags and from ``DERENDER_<NAME>`` variables.

This module and ``cli`` alone read the environment and the command line. The flags are made from the fields here, so a
setting is declared once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from derender_server.gateway.engine_options import EngineOptions, Routing

__all__ = ["DEMO", "Settings", "names_collector", "shared_metrics"]

DEMO = "demo"
DEMO_TOOL_PARSER = "hermes"
DEMO_REASONING_PARSER = "qwen3"

WORKER_VARIABLE = "DERENDER_WORKER_SETTINGS"
"""Carries the settings to worker processes."""

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Of ``prometheus-client``, which reads it when it is imported."""

COLLECTOR_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Of OpenTelemetry."""


class Settings(BaseModel):
    """What ``derender serve`` was told. The field descriptions are the flags' help."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(description="Directory of a model, Hugging Face repo id, or `demo`.")
    revision: str | None = Field(None, description="Branch, tag or commit of the Hugging Face repo.")
    served_model_name: tuple[str, ...] = Field(
        (), description="Name to serve the model under; may be given several times. Responses carry the first."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    uds: str | None = Field(None, description="Unix domain socket to listen on instead.")
    root_path: str = Field("", description="Path prefix that a proxy in front strips.")
    ssl_keyfile: str | None = Field(None, description="Key of the TLS certificate.")
    ssl_certfile: str | None = Field(None, description="TLS certificate.")
    api_key: tuple[str, ...] = Field(
        (), repr=False, description="Key that clients must send, as bearer token or X-Api-Key; may be given repeatedly."
    )
    tool_call_parser: str | None = Field(
        None, description="Tool parser; see `derender parsers`. `auto`: chosen by the model's files."
    )
    reasoning_parser: str | None = Field(
        None, description="Reasoning parser; see `derender parsers`. `auto`: chosen by the model's files."
    )
    enable_auto_tool_choice: bool = Field(False, description='Run the tool parser with tool_choice "auto" too.')
    stream_tool_calls: Literal["arguments", "whole"] = Field(
        "arguments", description="Stream calls as they come, or each when it is complete."
    )
    reasoning_field: Literal["reasoning", "reasoning_content", "both"] = Field(
        "reasoning", description="Name of the field that reasoning is returned in."
    )
    chat_template: str | None = Field(None, description="Chat template: a path, or the template itself.")
    chat_template_content_format: Literal["auto", "openai", "string"] = Field(
        "auto", description="Give the template content as text, as a list of parts, or as it expects it."
    )
    default_chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="JSON object of template arguments, under those of each request."
    )
    trust_request_chat_template: bool = Field(False, description="Accept chat templates that come with requests.")
    max_model_len: int | None = Field(None, ge=1, description="Tokens of prompt and output together.")
    max_logprobs: int = Field(20, ge=-1, description="Alternatives at one position; -1 is no limit.")
    max_choices: int = Field(16384, ge=1, description="Choices in one request.")
    body_limit: int = Field(64 * 2**20, ge=1, description="Bytes of a request body.")
    state_secret: str | None = Field(None, repr=False, description="Sign stream states with this secret.")
    renderer_num_workers: int = Field(2, ge=1, description="Threads for long work, in each process.")
    plugin_timeout: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds that one call of a parser may take; no limit by default."
    )
    workers: int = Field(1, ge=1, description="Processes that share the port.")
    body_timeout: float = Field(
        60,
        gt=0,
        allow_inf_nan=False,
        description="Seconds in which a request's head must have arrived, and then its body.",
    )
    engine_url: tuple[str, ...] = Field(
        (), description="URL of an engine that generates; may be given several times. Adds the gateway's routes."
    )
    prefill_url: tuple[str, ...] = Field(
        (), description="URL of an engine that runs prompts first, for --engine-url; may be given several times."
    )
    engine_api_key: str | None = Field(None, repr=False, description="Key that engines get as bearer token.")
    engine_connect_timeout: float = Field(
        5, gt=0, allow_inf_nan=False, description="Seconds in which a connection to an engine must stand."
    )
    engine_read_timeout: float = Field(
        600, gt=0, allow_inf_nan=False,
        description="Seconds that an engine may be silent. One that does not stream is, until all is generated.",
    )  # fmt: skip
    engine_retries: int = Field(2, ge=0, description="Other engines that are asked when one does not begin a request.")
    engine_health_interval: float = Field(
        5, gt=0, allow_inf_nan=False, description="Seconds between health checks of engines."
    )
    routing: Routing = Field(
        "least", description="Choose the engine with the fewest outstanding tokens, or by the prompt's beginning."
    )
    keep_alive_interval: float = Field(
        15, gt=0, allow_inf_nan=False, description="Seconds of silence after which a stream says that it still lives."
    )
    shutdown_timeout: float = Field(
        30, ge=0, allow_inf_nan=False, description="Seconds that SIGTERM leaves to what is in flight."
    )
    disable_access_log: bool = Field(False, description="Do not write a line to standard output for each request.")
    log_level: Literal["critical", "error", "warning", "info", "debug"] = Field("info", description="What is logged.")

    @field_validator("default_chat_template_kwargs", mode="after")
    @classmethod
    def _plain(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "tools" in value or "messages" in value:
            raise ValueError("messages and tools are the request's, not the template's arguments")
        return value

    @field_validator("engine_url", "prefill_url", mode="after")
    @classmethod
    def _bases(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ValueError(f"{url!r} is no base URL such as http://127.0.0.1:8100")
        bases = tuple(url.rstrip("/") for url in urls)
        if len(set(bases)) < len(bases):
            raise ValueError("an engine is given twice")
        return bases

    @model_validator(mode="after")
    def _prefills_for_engines(self) -> Self:
        if self.prefill_url and not self.engine_url:
            raise ValueError("--prefill-url needs --engine-url: those engines only run prompts")
        return self

    @property
    def engines(self) -> EngineOptions | None:
        """The engines of the gateway, if there is one."""
        if not self.engine_url:
            return None
        return EngineOptions(
            urls=self.engine_url,
            prefill_urls=self.prefill_url,
            api_key=self.engine_api_key,
            routing=self.routing,
            connect_timeout=self.engine_connect_timeout,
            read_timeout=self.engine_read_timeout,
            retries=self.engine_retries,
            health_interval=self.engine_health_interval,
        )

    @property
    def is_demo(self) -> bool:
        """Whether the shipped demo is served."""
        return self.model == DEMO

    def with_demo_defaults(self) -> Settings:
        """For the demo: its parsers, with automatic tool choice, unless others were given. Else unchanged."""
        if not self.is_demo or self.tool_call_parser or self.reasoning_parser:
            return self
        return self.model_copy(
            update={
                "tool_call_parser": DEMO_TOOL_PARSER,
                "reasoning_parser": DEMO_REASONING_PARSER,
                "enable_auto_tool_choice": True,
            }
        )

    @classmethod
    def flag_variable(cls, name: str) -> str:
        """The environment variable of a field."""
        return f"DERENDER_{name.upper()}"

    def hand_to_workers(self, metrics: str) -> None:
        """Leave the settings where the processes that this one starts find them.

        Args:
            metrics: the directory in which they count together, unless the environment has one.
        """
        os.environ[WORKER_VARIABLE] = self.model_dump_json()
        os.environ.setdefault(METRICS_VARIABLE, metrics)

    @classmethod
    def of_worker(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings that ``hand_to_workers`` left.

        Raises:
            KeyError: this process was not started by ``derender serve``.
        """
        return cls.model_validate_json((environment or os.environ)[WORKER_VARIABLE])


def shared_metrics() -> str | None:
    """The directory in which several processes count together, if they do."""
    return os.environ.get(METRICS_VARIABLE) or None


def names_collector() -> bool:
    """Whether OpenTelemetry's variables say where traces go."""
    return any(os.environ.get(name) for name in COLLECTOR_VARIABLES)
