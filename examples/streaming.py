"""Streaming: render, then every chunk of the engine's stream through derender, printed as it comes.

    derender serve demo              # in another terminal
    python examples/streaming.py

Derender keeps nothing between calls. It answers each chunk with an OpenAI chunk and a ``stream_state``, which goes back
unchanged with the next chunk. The prompt's token ids are needed with the first chunk only.
"""

import argparse
import json
from collections.abc import Iterator

import httpx

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def generate_chunks(http: httpx.Client, url: str, generate_request: dict) -> Iterator[dict]:
    """The engine's chunks, from its server-sent events."""
    with http.stream("POST", url, json=generate_request) as response:
        check(response)
        for line in response.iter_lines():
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def openai_chunks(http: httpx.Client, args: argparse.Namespace, chat_request: dict) -> Iterator[dict]:
    """The answer to a chat request, as OpenAI chunks."""
    rendered = http.post(f"{args.render_url}/v1/chat/completions/render", json=chat_request)
    generate_request = check(rendered).json()

    body = {
        "stream": True,
        "chat_request": chat_request,
        "prompt_tokens": len(generate_request["token_ids"]),
        "prompt_token_ids": generate_request["token_ids"],
    }
    for chunk in generate_chunks(http, f"{args.engine_url}/inference/v1/generate", generate_request):
        derendered = http.post(
            f"{args.render_url}/v1/chat/completions/derender", json={**body, "generate_chunk": chunk}
        )
        answer = check(derendered).json()
        body.pop("prompt_token_ids", None)
        body["stream_state"] = answer["stream_state"]  # one choice here; with n > 1 keep one state for each index
        yield answer["chunk"]


def check(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        raise SystemExit(f"{response.url}: HTTP {response.status_code}: {response.read().decode()}")
    return response


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render-url", default="http://127.0.0.1:8000", help="server that renders and derenders")
    parser.add_argument("--engine-url", default="http://127.0.0.1:8000", help="token-in/token-out engine")
    parser.add_argument("--model", help="served model name (default: whatever the server serves)")
    parser.add_argument("--prompt", default="What is the weather in Kraków?", help="what to ask")
    parser.add_argument("--no-tools", action="store_true", help="offer no tool")
    args = parser.parse_args()

    chat_request = {
        "messages": [{"role": "user", "content": args.prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if not args.no_tools:
        chat_request["tools"] = [TOOL]
    if args.model:
        chat_request["model"] = args.model

    printing = None  # the kind of text on the current line
    with httpx.Client(timeout=60) as http:
        for chunk in openai_chunks(http, args, chat_request):
            for kind, text in pieces(chunk):
                if kind != printing:
                    print("\n" if printing else "", kind, ": ", sep="", end="")
                print(text, end="", flush=True)
                printing = kind
    print()


def pieces(chunk: dict) -> Iterator[tuple[str, str]]:
    """What a chunk adds: (kind, text)."""
    for choice in chunk["choices"]:
        delta = choice["delta"]
        for kind in ("reasoning", "content"):
            if delta.get(kind):
                yield kind, delta[kind]
        for call in delta.get("tool_calls") or []:
            function = call["function"]
            name = f"{function['name']} " if "name" in function else ""
            yield f"tool call {call['index']}", name + function.get("arguments", "")
        if choice.get("finish_reason"):
            yield "finish_reason", choice["finish_reason"]
    if chunk.get("usage"):
        yield "usage", json.dumps(chunk["usage"])


if __name__ == "__main__":
    main()
