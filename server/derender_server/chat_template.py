"""Chat templates: where a model keeps them, which one a request gets, and messages rendered to text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from derender_core.errors import InputError, TemplateError
from derender_server.model import ModelLoadError, read_json_object
from derender_server.template_messages import REASONING_KEYS, ContentForm, template_messages
from derender_server.template_sandbox import compile_template, render_template
from derender_server.template_traits import TemplateTraits, template_traits
from derender_server.wire.requests import TemplateFields

__all__ = ["ChatTemplates", "ContentFormat", "load_templates", "special_token_variables"]

ContentFormat = Literal["auto", "string", "openai"]
DEFAULT, TOOL_USE = "default", "tool_use"
# What a request says in fields of its own, or what is not the template's business.
RESERVED = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template", "tokenize"}
)
# The blank at its end shows whether the template trims what it is given.
OPEN_END = "OPEN-END-OF-THE-FINAL-MESSAGE "


class ChatTemplates:
    """A model's chat templates, and how requests may use them.

    Args:
        templates: template sources by name. Empty is allowed: then chats cannot be rendered.
        special_tokens: variables such as ``bos_token`` that templates read.
        content_format: whether templates get text, or lists of parts; ``"auto"`` reads it from the template.
        trust_requests: whether a request may bring a template of its own.

    Raises:
        TemplateError: a template is not valid.
    """

    def __init__(
        self,
        templates: Mapping[str, str],
        *,
        special_tokens: Mapping[str, str] | None = None,
        content_format: ContentFormat = "auto",
        trust_requests: bool = False,
    ) -> None:
        self.templates = dict(templates)
        self.special_tokens = dict(special_tokens or {})
        self.content_format = content_format
        self.trust_requests = trust_requests
        for source in self.templates.values():
            compile_template(source)

    def render(self, request: TemplateFields, template_kwargs: Mapping[str, Any]) -> str:
        """The text that the template makes of a request.

        Args:
            request: messages, tools and how to end.
            template_kwargs: variables for the template: the request's over the server's.

        Raises:
            InputError: a field that cannot be rendered; names it.
            TemplateError: the template refuses the request or breaks on it, or there is none.
        """
        _check_kwargs(template_kwargs)
        source = self._select(request)
        traits = template_traits(source)
        messages = template_messages(request.messages, self._form(traits), traits)
        continued = _open_final_message(messages, request) if request.continue_final_message else None
        text = render_template(
            source,
            {
                **self.special_tokens,
                **template_kwargs,
                "messages": messages,
                "tools": [tool.raw for tool in request.tools] if request.tools else None,
                "documents": request.documents,
                "add_generation_prompt": request.generation_prompt,
            },
        )
        return text if continued is None else _cut_open_end(text, continued)

    def _select(self, request: TemplateFields) -> str:
        if request.chat_template is not None:
            if not self.trust_requests:
                raise InputError(
                    "chat_template: this server does not run templates from requests; leave the field out, or start "
                    "the server with --trust-request-chat-template",
                    "chat_template",
                )
            return request.chat_template
        names = (TOOL_USE, DEFAULT) if request.tools else (DEFAULT,)
        for name in names:
            if name in self.templates:
                return self.templates[name]
        if not self.templates:
            raise TemplateError("the model has no chat template; start the server with --chat-template", "messages")
        raise TemplateError(
            f"the model has chat templates {', '.join(sorted(self.templates))}, but none is the default; choose one "
            "with --chat-template",
            "messages",
        )

    def _form(self, traits: TemplateTraits) -> ContentForm:
        return traits.content_format if self.content_format == "auto" else self.content_format


def load_templates(directory: Path, tokenizer_config: Mapping[str, Any], override: str | None = None) -> dict[str, str]:
    """A model's chat templates by name.

    Sources, later ones winning: ``chat_template.json``, ``tokenizer_config.json``, ``chat_template.jinja``,
    ``additional_chat_templates/*.jinja``.

    Args:
        directory: the model's files.
        tokenizer_config: the content of ``tokenizer_config.json``.
        override: a file, the name of one of the model's templates, or a template as text. It replaces all others.

    Raises:
        ModelLoadError: a file cannot be read, or ``override`` is none of the three.
    """
    found = _listed(read_json_object(directory / "chat_template.json").get("chat_template"))
    found |= _listed(tokenizer_config.get("chat_template"))
    if (path := directory / "chat_template.jinja").is_file():
        found[DEFAULT] = _read(path)
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        found[path.stem] = _read(path)
    return found if override is None else {DEFAULT: _override(override, found)}


def special_token_variables(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token`` and the like, as templates read them."""
    named = {key: value for key, value in tokenizer_config.items() if key.endswith("_token")}
    extra = tokenizer_config.get("extra_special_tokens")
    texts = {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in {**(extra if isinstance(extra, dict) else {}), **named}.items()
    }
    return {key: text for key, text in texts.items() if isinstance(text, str)}


def _listed(value: object) -> dict[str, str]:
    """Templates as configuration files give them: one text, a list of names and texts, or a mapping."""
    if isinstance(value, str):
        return {DEFAULT: value}
    if isinstance(value, list):
        value = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}


def _override(override: str, found: Mapping[str, str]) -> str:
    if override in found:
        return found[override]
    if "{" in override or "\n" in override:
        return override
    path = Path(override).expanduser()
    if not path.is_file():
        raise ModelLoadError(f"--chat-template {override!r} is neither a file nor the text of a template")
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"cannot read the chat template {path}: {error}") from error


def _check_kwargs(template_kwargs: Mapping[str, Any]) -> None:
    for name in sorted(RESERVED.intersection(template_kwargs)):
        param = f"chat_template_kwargs.{name}"
        raise InputError(f"{param}: set the request's own field {name!r} instead", param)


def _open_final_message(messages: list[dict[str, Any]], request: TemplateFields) -> str:
    """Mark where the final message ends, and return its text. ``transformers`` defines what continuing means."""
    field = request.continue_final_message if isinstance(request.continue_final_message, str) else "content"
    final = messages[-1]
    value, original = final.get(field), request.messages[-1].content if field == "content" else final.get(field)
    if original is None:
        raise InputError(
            f"continue_final_message: the final message has no {field} to continue", "continue_final_message"
        )
    if isinstance(value, list):
        if not value:
            raise InputError("continue_final_message: the final message has no text part", "continue_final_message")
        text: str = value[-1]["text"]
        value[-1] = value[-1] | {"text": text + OPEN_END}
        return text
    text = value or ""
    if not isinstance(text, str):
        raise InputError(f"continue_final_message: {field} of the final message is not text", "continue_final_message")
    for key in REASONING_KEYS if field in REASONING_KEYS else (field,):
        final[key] = text + OPEN_END
    return text


def _cut_open_end(text: str, continued: str) -> str:
    at = text.rfind(OPEN_END.strip())
    if at < 0 or continued.strip() not in text:
        raise TemplateError(
            "continue_final_message: the chat template does not keep the text of the final message, so it cannot be "
            "continued",
            "continue_final_message",
        )
    head = text[:at]
    return head if text.startswith(OPEN_END, at) else head.rstrip()
