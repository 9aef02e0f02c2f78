"""The OpenAPI document, made from the handlers and the pydantic models, and the interactive page that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from litestar import MediaType, Response, get
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from pydantic import TypeAdapter

from derender_server.wire.responses import ErrorResponse

__all__ = ["document", "document_handlers"]

REFERENCE = "#/components/schemas/{model}"
JSON = "application/json"
EVENTS = "text/event-stream"
SUMMARY = "Chat requests to token ids, token ids to answers."


def document(handlers: Iterable[BaseRouteHandler], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these handlers.

    Args:
        handlers: their ``opt`` names the models of body and answer, and of the events of streamed answers.
        version: of the server.
    """
    routes = [handler for handler in handlers if isinstance(handler, HTTPRouteHandler)]
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for handler in routes:
        for path in sorted(handler.paths):
            for method in sorted(handler.http_methods):
                paths.setdefault(path, {})[method.lower()] = _operation(handler, method, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "derender",
            "version": version,
            "summary": "Chat requests to token ids, token ids to answers.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def document_handlers(handlers: Sequence[BaseRouteHandler], version: str) -> list[BaseRouteHandler]:
    """``/openapi.json``, and ``/docs``: a page without anything from elsewhere, so that it works offline."""
    described = tuple(handlers)
    page = (files("derender_server") / "docs.html").read_bytes()

    @cache
    def encoded() -> bytes:  # when somebody asks: it takes a tenth of the time to start
        return msgspec.json.encode(document(described, version))

    @get("/openapi.json")
    async def openapi() -> Response[bytes]:
        """The OpenAPI document."""
        return Response(await asyncio.to_thread(encoded), media_type=MediaType.JSON)

    @get("/docs")
    async def docs() -> Response[bytes]:
        """A page to try the routes with."""
        return Response(page, media_type=MediaType.HTML)

    return [openapi, docs]


def _schemas(routes: Iterable[HTTPRouteHandler]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """References to the schemas of all models, by model; and the schemas."""
    wanted = {ErrorResponse: "serialization"}
    for handler in routes:
        wanted.update(dict.fromkeys(handler.opt.get("body", ()), "validation"))
        for kind in ("answer", "event"):
            wanted.update(dict.fromkeys(handler.opt.get(kind, ()), "serialization"))
    inputs = [(model, mode, TypeAdapter(model)) for model, mode in wanted.items()]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=REFERENCE)  # type: ignore[arg-type]
    return {model: schema for (model, _), schema in found.items()}, definitions.get("$defs", {})


def _operation(handler: HTTPRouteHandler, method: str, schemas: dict[Any, Any]) -> dict[str, Any]:
    about = (handler.fn.__doc__ or "").strip().split("\n")[0]
    answer = _content(handler.opt.get("answer", ()), schemas)
    if events := handler.opt.get("event"):
        answer["content"] |= _content(events, schemas, EVENTS)["content"]
    errors = {"4XX": "The request is wrong.", "5XX": "The server is wrong, or overloaded."}
    operation: dict[str, Any] = {
        "operationId": f"{handler.handler_name}_{method.lower()}",
        "summary": handler.summary or about,
        "responses": {
            "200": {"description": "Done.", **answer},
            **{status: {"description": text, **_content((ErrorResponse,), schemas)} for status, text in errors.items()},
        },
    }
    if body := handler.opt.get("body"):
        operation["requestBody"] = {"required": True, **_content(body, schemas)}
    if not handler.opt.get("open"):
        operation["security"] = [{}, {"key": []}]
    return operation


def _content(models: Sequence[Any], schemas: dict[Any, Any], media_type: str = JSON) -> dict[str, Any]:
    if not models:
        return {}
    found = [schemas[model] for model in models]
    return {"content": {media_type: {"schema": found[0] if len(found) == 1 else {"anyOf": found}}}}
