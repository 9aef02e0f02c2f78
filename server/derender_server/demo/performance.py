"""Answers of the stand-in engine over HTTP: a request in its time, or a fault in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import web

from derender_server.demo.engine import DemoEngine
from derender_server.demo.playback import Output
from derender_server.demo.playing import Playing
from derender_server.demo.request import EngineRequest
from derender_server.demo.switches import Switches
from derender_server.errors import error_body

__all__ = ["Performance", "error_answer", "json_answer"]

BEFORE_AN_ANSWER = ("refuse", "status", "hang", "not_sse")
COMMENT = b": the engine is alive\n\n"
DONE = b"[DONE]"
TOLD_TO = "The engine was told to fail."
encode = msgspec.json.Encoder().encode


class Performance:
    """One request, answered as the switches say.

    Args:
        engine: makes the messages.
        http: the request.
        playing: what is told of it.
        request: its body.
        outputs: what the engine says, complete.
        switches: how it says it.
    """

    def __init__(
        self,
        engine: DemoEngine,
        http: web.Request,
        playing: Playing,
        request: EngineRequest,
        outputs: Sequence[Output],
        switches: Switches,
    ) -> None:
        self._engine, self._http, self._playing = engine, http, playing
        self._request, self._outputs, self._switches = request, outputs, switches
        self._response = web.StreamResponse()

    async def answer(self) -> web.StreamResponse:
        """Answer the request. Cancelled when the client goes away."""
        if self._switches.fault in BEFORE_AN_ANSWER:
            return await self._fail()
        return await (self._stream() if self._request.stream else self._whole())

    async def _fail(self) -> web.StreamResponse:
        """What goes wrong before an answer."""
        fault = self._switches.fault
        if fault == "hang" and not await self._playing.wait(None):
            self._playing.end("aborted")
            return error_answer(500, "The request was aborted.")
        self._playing.end("failed")
        if fault == "status":
            return error_answer(self._switches.fault_status, TOLD_TO)
        if fault == "not_sse":
            return web.Response(text="<html><body>It works!</body></html>", content_type="text/html")
        return await self._cut_off()

    async def _whole(self) -> web.StreamResponse:
        switches, outputs = self._switches, self._outputs
        longest = max(len(output.token_ids) for output in outputs)
        until = asyncio.get_running_loop().time() + switches.first_token_delay + longest * switches.token_delay
        going = await self._playing.wait(None if switches.fault == "stall" else until)
        answer = encode(
            self._engine.response(self._request, outputs if going else [_aborted(output) for output in outputs])
        )
        if going and switches.fault == "drop":
            self._playing.end("failed")
            self._response.content_type = "application/json"
            self._response.content_length = len(answer)
            await self._response.prepare(self._http)
            await self._response.write(answer[: len(answer) // 2])
            return await self._cut_off()
        if going and switches.fault == "error":
            self._playing.end("failed")
            return error_answer(switches.fault_status, TOLD_TO)
        if going:
            self._playing.tokens = sum(len(output.token_ids) for output in outputs)
            answer = switches.garbage.encode() if switches.fault == "garbage" else answer
        self._playing.end("finished" if going else "aborted")
        return web.Response(body=answer, content_type="application/json")

    async def _stream(self) -> web.StreamResponse:
        switches, playing = self._switches, self._playing
        self._response.headers.update({"content-type": "text/event-stream", "cache-control": "no-cache"})
        writer = await self._response.prepare(self._http)
        if writer is not None:
            writer.send_headers()  # an engine tells that it has begun before it has a token
        due = [asyncio.get_running_loop().time() + switches.first_token_delay] * len(self._outputs)
        finished: set[int] = set()
        for chunk in self._engine.chunks(self._request, self._outputs):
            if switches.fault is not None and playing.chunks == switches.fault_after and await self._fail_midway():
                break
            for choice in chunk["choices"]:
                index = choice["index"]
                due[index] += switches.token_delay * len(choice["token_ids"])  # choices are made side by side
                if await playing.wait(due[index]) and choice["finish_reason"] is not None:
                    finished.add(index)
            if playing.aborting:
                await self._send_aborted([output for output in self._outputs if output.index not in finished])
                break
            await self._send(encode(chunk))
            playing.chunks += 1
            playing.tokens += sum(len(choice["token_ids"]) for choice in chunk["choices"])
        if switches.fault != "no_done":
            await self._send(DONE)
        playing.end("aborted" if playing.aborting else "finished")
        return self._response

    async def _fail_midway(self) -> bool:
        """What goes wrong within a stream; whether it ends there."""
        fault = self._switches.fault
        if fault == "garbage":
            await self._send(self._switches.garbage.encode())
        elif fault == "stall":
            await self._playing.wait(None)
        if fault not in ("drop", "error", "unfinished"):
            return False
        self._playing.end("failed")
        if fault == "drop":
            await self._cut_off()
        if fault == "error":
            await self._send(encode(error_body(self._switches.fault_status, TOLD_TO)))
        return True

    async def _send_aborted(self, outputs: Sequence[Output]) -> None:
        if outputs:
            for chunk in self._engine.chunks(self._request, [_aborted(output) for output in outputs]):
                await self._send(encode(chunk))

    async def _send(self, data: bytes) -> None:
        """Send an event. Waits for a client that does not read."""
        before = COMMENT if self._switches.comments else b""
        await self._response.write(b"%bdata: %b\n\n" % (before, data))

    async def _cut_off(self) -> web.StreamResponse:
        """Close the connection. That cancels who waits here."""
        if self._http.transport is not None:
            self._http.transport.close()
        never: asyncio.Future[web.StreamResponse] = asyncio.get_running_loop().create_future()
        return await never


def json_answer(body: object) -> web.Response:
    """An answer of JSON."""
    return web.Response(body=encode(body), content_type="application/json")


def error_answer(status: int, message: str, param: str | None = None) -> web.Response:
    """An error, in the shape that engines give it."""
    return web.Response(status=status, body=encode(error_body(status, message, param)), content_type="application/json")


def _aborted(output: Output) -> Output:
    return Output(output.index, [], "abort", None)
