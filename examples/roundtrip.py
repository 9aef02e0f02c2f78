"""One tool round trip: render -> generate -> derender, run the tool, and the same again with its result.

    derender serve demo              # in another terminal
    python examples/roundtrip.py

Render turns an OpenAI chat request into token ids, a token-in/token-out engine turns those into more token ids, and
derender turns these into an OpenAI chat completion. The demo serves all three; give ``--engine-url`` for a real engine.
"""

import argparse
import json

import httpx

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}


def get_weather(city: str, unit: str = "celsius") -> dict:
    return {"city": city, "temperature": 21 if unit == "celsius" else 70, "unit": unit, "sky": "clear"}


def complete(http: httpx.Client, args: argparse.Namespace, messages: list[dict]) -> dict:
    """The assistant's next message."""
    chat_request = {"messages": messages}
    if not args.no_tools:
        chat_request["tools"] = [TOOL]
    if args.model:
        chat_request["model"] = args.model

    generate_request = post(http, f"{args.render_url}/v1/chat/completions/render", chat_request)
    generate_response = post(http, f"{args.engine_url}/inference/v1/generate", generate_request)
    completion = post(
        http,
        f"{args.render_url}/v1/chat/completions/derender",
        {
            "generate_response": generate_response,
            "chat_request": chat_request,
            "prompt_token_ids": generate_request["token_ids"],
            "prompt_tokens": len(generate_request["token_ids"]),
        },
    )

    choice = completion["choices"][0]
    for field in ("reasoning", "content"):
        if choice["message"].get(field):
            print(f"{field}: {choice['message'][field]}")
    for call in choice["message"].get("tool_calls", []):
        print(f"tool call: {call['function']['name']}({call['function']['arguments']})")
    print(f"finish_reason: {choice['finish_reason']}, usage: {json.dumps(completion['usage'])}\n")
    return choice["message"]


def post(http: httpx.Client, url: str, body: dict) -> dict:
    response = http.post(url, json=body)
    if response.is_error:
        raise SystemExit(f"{url}: HTTP {response.status_code}: {response.text}")
    return response.json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render-url", default="http://127.0.0.1:8000", help="server that renders and derenders")
    parser.add_argument("--engine-url", default="http://127.0.0.1:8000", help="token-in/token-out engine")
    parser.add_argument("--model", help="served model name (default: whatever the server serves)")
    parser.add_argument("--prompt", default="What is the weather in Kraków?", help="what to ask")
    parser.add_argument("--no-tools", action="store_true", help="offer no tool")
    args = parser.parse_args()

    messages = [{"role": "user", "content": args.prompt}]
    with httpx.Client(timeout=60) as http:
        message = complete(http, args, messages)
        if calls := message.get("tool_calls"):
            messages.append(message)
            for call in calls:
                weather = get_weather(**json.loads(call["function"]["arguments"]))
                result = json.dumps(weather, ensure_ascii=False)
                print(f"tool result: {result}\n")
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            complete(http, args, messages)


if __name__ == "__main__":
    main()
