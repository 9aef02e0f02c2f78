"""``--tool-call-parser auto`` and ``--reasoning-parser auto`` of the server and the library."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from derender_core import UnsureParserError
from derender_server import Derenderer, Renderer
from derender_server.cli import main
from derender_server.services import Services
from derender_server.settings import Settings

TEMPLATE = (
    "{# <tool_call>\n<function-name> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n<think>\n{# </think> #}"
)
CONFIG = {"max_position_embeddings": 512, "model_type": "qwen3"}

ModelMaker = Callable[..., Path]


@pytest.fixture
def model(small_model: ModelMaker) -> str:
    return str(small_model(config=CONFIG, tokenizer_config={"chat_template": TEMPLATE}))


def test_the_server_chooses_and_says_why(model: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "derender"):
        services = Services(Settings(model=model, tool_call_parser="auto", reasoning_parser="auto"))
    assert "tool parser hermes, reasoning parser qwen3" in services.summary().replace(", auto tool choice", "")
    assert f"tool parser of {model}: hermes, as its chat template has '<tool_call>', '<function-name>'" in caplog.text
    assert "its model_type is 'qwen3'" in caplog.text


def test_the_template_that_is_used_counts(model: str, tmp_path: Path) -> None:
    other = tmp_path / "other.jinja"
    other.write_text("{# <tool_call> <function= <parameter= #}", encoding="utf-8")
    services = Services(Settings(model=model, tool_call_parser="auto", chat_template=str(other)))
    assert "tool parser qwen3_coder" in services.summary()


def test_the_library_chooses(model: str) -> None:
    derenderer = Derenderer.from_pretrained(model, tool_parser="auto", reasoning_parser="auto")
    renderer = Renderer.from_pretrained(model, tool_parser="auto", reasoning_parser="auto")
    answer = derenderer.derender_chat(
        {
            "generate_response": {
                "request_id": "1",
                "choices": [
                    {
                        "index": 0,
                        "token_ids": derenderer.model.tokenizer.encode("a</think>b"),
                        "finish_reason": "stop",
                    }
                ],
            },
            "prompt_token_ids": renderer.render_chat({"messages": [{"role": "user", "content": "x"}]}).token_ids,
            "chat_request": {"messages": [{"role": "user", "content": "x"}]},
        }
    )
    message = answer["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("a", "b")


def test_a_model_that_nobody_knows_is_refused(small_model: ModelMaker) -> None:
    directory = str(small_model())
    with pytest.raises(UnsureParserError, match="--tool-call-parser auto is not sure"):
        Services(Settings(model=directory, tool_call_parser="auto"))
    with pytest.raises(UnsureParserError, match="--reasoning-parser auto is not sure"):
        Derenderer.from_pretrained(directory, reasoning_parser="auto")


def test_the_command_line_says_so_and_ends(small_model: ModelMaker) -> None:
    result = CliRunner().invoke(main, ["serve", str(small_model()), "--reasoning-parser", "auto", "--port", "0"])
    assert result.exit_code == 1
    assert "--reasoning-parser auto is not sure" in result.output
