"""`derender corpus record`: raw outputs of a running engine, as cases that people label."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from derender_core.inputs import Prompt
from derender_core.tokenizer import ModelTokenizer
from derender_server.authoring.failure import CannotRun
from derender_server.renderer import Renderer
from derender_server.wire.generate import GenerateRequest

__all__ = ["Recording", "record_cases"]

_PATHS = {"generate": "/inference/v1/generate", "completions": "/v1/completions"}
_OWN_KEYS = ("id", "tags", "notes")
"""Keys of a line that are the case's, not the request's."""
_TAIL = 200
"""Characters of the prompt that a case keeps at least."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """How to record.

    Args:
        url: the engine.
        model: renders the prompts.
        api: "generate" or "completions".
        engine_model: the model's name at the engine.
        tool_parser: what the cases are for.
        reasoning_parser: what the cases are for.
        licence: of the cases.
        api_key: of the engine.
        timeout: seconds to wait for an answer.
    """

    url: str
    model: str
    api: str = "generate"
    engine_model: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    licence: str | None = None
    api_key: str | None = None
    timeout: float = 600.0


def record_cases(requests: Path, how: Recording, client: httpx.Client | None = None) -> Iterator[Record]:
    """Send each request, and make a case of each choice of the answer.

    Args:
        requests: a chat request a line.
        how: how to record.
        client: to be used instead of one of its own.

    Raises:
        CannotRun: a line is no request, or the engine does not answer as it should; names the line.
        DerenderError: the model cannot be loaded, or a request cannot be rendered.
    """
    renderer = Renderer.from_pretrained(how.model, tool_parser=how.tool_parser, reasoning_parser=how.reasoning_parser)
    headers = {"authorization": f"Bearer {how.api_key}"} if how.api_key else {}
    with client or httpx.Client(timeout=how.timeout, headers=headers) as http:
        for number, body in _lines(requests):
            own = {key: body.pop(key) for key in _OWN_KEYS if key in body}
            rendered = renderer.render_chat(body)
            tokenizer = renderer.model.tokenizer
            outputs = _ask(http, how, rendered, f"{requests}:{number}")
            for at, output in enumerate(outputs):
                name = str(own.get("id", f"{requests.stem}-{number}"))
                case_id = name if len(outputs) == 1 else f"{name}.{at}"
                yield _case(case_id, own, body, rendered, output, how, tokenizer)


def _lines(requests: Path) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(requests.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except ValueError as error:
            raise CannotRun(f"{requests}:{number}: not JSON: {error}") from error
        if not isinstance(body, dict) or "messages" not in body:
            raise CannotRun(f"{requests}:{number}: a chat request is an object with 'messages'")
        yield number, body


# -- the engine --------------------------------------------------------------------------------------------------------


def _ask(http: httpx.Client, how: Recording, rendered: GenerateRequest, where: str) -> list[Record]:
    """The choices of the answer."""
    body = _generate_body(how, rendered) if how.api == "generate" else _completions_body(how, rendered)
    url = how.url.rstrip("/").removesuffix("/v1") + _PATHS[how.api]
    try:
        response = http.post(url, json=body)
    except httpx.HTTPError as error:
        raise CannotRun(f"{where}: {url} does not answer: {error}") from error
    if response.status_code != 200:
        raise CannotRun(f"{where}: {url} answers {response.status_code}: {response.text[:500]}")
    try:
        choices = response.json()["choices"]
        outputs = [_read_choice(how.api, choice) for choice in choices]
    except (ValueError, KeyError, TypeError) as error:
        raise CannotRun(f"{where}: {url} answers something else: {error!r}: {response.text[:500]}") from error
    return outputs


def _generate_body(how: Recording, rendered: GenerateRequest) -> Record:
    body = rendered.model_dump(mode="json")
    if how.engine_model is not None:
        body["model"] = how.engine_model
    return body | {"stream": False}


def _completions_body(how: Recording, rendered: GenerateRequest) -> Record:
    """The prompt as ids, since a text would get a second BOS; and nothing stripped from the output."""
    sampling = rendered.sampling_params
    body: Record = {
        "model": how.engine_model or rendered.model,
        "prompt": rendered.token_ids,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "n": sampling.n,
        "stream": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "return_token_ids": True,
    }
    optional = {"seed": sampling.seed, "stop": sampling.stop or None, "top_k": sampling.top_k}
    return body | {key: value for key, value in optional.items() if value is not None}


def _read_choice(api: str, choice: Mapping[str, Any]) -> Record:
    output: Record = {"finish_reason": choice.get("finish_reason")}
    ids = choice["token_ids"] if api == "generate" else choice.get("token_ids")
    if ids is not None:
        output["token_ids"] = [int(token_id) for token_id in ids]
    if api == "completions":
        output["output"] = str(choice["text"])
    return output


# -- the case ----------------------------------------------------------------------------------------------------------


def _case(
    case_id: str,
    own: Record,
    body: Record,
    rendered: GenerateRequest,
    output: Record,
    how: Recording,
    tokenizer: ModelTokenizer,
) -> Record:
    if "token_ids" in output:  # the ids are what the model said; a server may have stripped the text
        text = tokenizer.decode(output["token_ids"], skip_special_tokens=False)
        output = {**output, "output": text, "tokenizer": how.model}
    case: Record = {
        "id": case_id,
        "parsers": {"tool": how.tool_parser, "reasoning": how.reasoning_parser},
        "tools": [_tool(tool) for tool in body.get("tools") or []],
        "tool_choice": read_tool_choice(body.get("tool_choice")),
        "template_kwargs": body.get("chat_template_kwargs") or {},
        "prompt": _tail(tokenizer, rendered.token_ids),
        **output,
        "unlabelled": True,
        "tags": own.get("tags"),
        "notes": own.get("notes"),
        "source": f"recorded by derender corpus record, {datetime.now(UTC):%Y-%m-%d}",
        "model": how.engine_model or how.model,
        "licence": how.licence,
    }
    return {key: value for key, value in case.items() if value not in (None, [], {})}


def _tool(tool: Mapping[str, Any]) -> Record:
    function = tool["function"]
    return {key: function[key] for key in ("name", "parameters") if function.get(key) is not None}


def read_tool_choice(choice: object) -> str:
    """A request's ``tool_choice`` as cases write it."""
    if isinstance(choice, Mapping):
        function = choice.get("function")
        return f"function:{function['name'] if isinstance(function, Mapping) else choice.get('name')}"
    return str(choice) if choice else "auto"


def _tail(tokenizer: ModelTokenizer, token_ids: list[int]) -> str:
    """The current turn, and some of what is in front of it."""
    text = tokenizer.decode(token_ids, skip_special_tokens=False)
    turn = len(Prompt(text).current_turn)
    return text[-max(_TAIL, turn + 40) :]
