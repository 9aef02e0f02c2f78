"""What the tests of the WebSocket share: a server, and an engine's side to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from derender_server.app import create_app
from derender_server.chat_socket import ROUTE
from derender_server.gate import Application
from derender_server.services import Services
from derender_server.serving import Server
from derender_server.settings import Settings

PROMPT = "<|im_start|>user\nWhat is the weather in Łódź?<|im_end|>\n<|im_start|>assistant\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


class Running:
    """A server in this process, and its clients."""

    def __init__(self, server: Server, app: Application, address: tuple[str, int]) -> None:
        self.server, self.gate = server, app.gate
        self.services: Services = app.state.services
        self.http, self.ws = (f"{scheme}://{address[0]}:{address[1]}" for scheme in ("http", "ws"))

    def connect(self, **headers: str) -> Any:
        return connect(self.ws + ROUTE, additional_headers=headers, compression=None)

    def ids(self, text: str) -> list[int]:
        return self.services.model.tokenizer.encode(text)

    def context(self, request: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        chat = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], **(request or {})}
        return {"chat_request": chat, "prompt_token_ids": self.ids(PROMPT), **fields}

    def stateless(self, chunks: list[dict[str, Any]], context: dict[str, Any]) -> list[dict[str, Any]]:
        """What the HTTP route makes of the chunks, the client keeping a state for each choice."""
        states: dict[int, Any] = {}
        answers = []
        for chunk in chunks:
            index = chunk["choices"][0]["index"] if chunk["choices"] else 0
            body = {"stream": True, "generate_chunk": chunk, "stream_state": states.get(index), **context}
            answer = json.loads(self.services.derender_chat(json.dumps(body).encode()))
            states[index] = answer["stream_state"]
            answers.append(answer["chunk"])
        return answers

    async def metric(self, name: str) -> float:
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"{self.http}/metrics")).text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    @staticmethod
    def chunks_of(token_ids: list[int], size: int = 1, index: int = 0, reason: str = "stop", **more: Any) -> list[Any]:
        """An engine's chunks."""
        pieces = [token_ids[at : at + size] for at in range(0, len(token_ids), size)]
        return [
            {
                "request_id": "chatcmpl-1",
                "choices": [
                    {
                        "index": index,
                        "token_ids": piece,
                        "finish_reason": reason if at == len(pieces) - 1 else None,
                        **more,
                    }
                ],
            }
            for at, piece in enumerate(pieces)
        ]

    @staticmethod
    async def talk(socket: ClientConnection, context: Any, chunks: list[Any]) -> list[dict[str, Any]]:
        """Send a context and chunks; the answers."""
        await socket.send(json.dumps(context))
        answers = []
        for chunk in chunks:
            await socket.send(json.dumps(chunk))
            answers.append(json.loads(await socket.recv()))
        return answers


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def serve() -> Serve:
    """``async with serve(flag=...) as running``: the demo under uvicorn, on a free port."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Running]:
        told = Settings(model="demo", port=0, **settings)
        app = create_app(told)
        server = Server(app, told)
        bound = server.config.bind_socket()
        task = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0)
        yield Running(server, app, bound.getsockname()[:2])
        server.should_exit = True
        await task

    return start


@pytest.fixture
async def running(serve: Serve) -> AsyncIterator[Running]:
    async with serve() as running:
        yield running
