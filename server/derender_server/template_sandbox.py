"""The jinja2 environment that chat templates run in, and compiled templates.

Templates come with models, from strangers, so they run in jinja2's immutable sandbox and see only what the request
holds. The environment offers what ``transformers`` documents for chat templates (its "Writing a chat template" guide):
trimmed blocks, loop controls, the ``generation`` tag, ``raise_exception``, ``strftime_now`` and a ``tojson`` that does
not escape HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from derender_core.errors import TemplateError

__all__ = ["JsonArguments", "compile_template", "parse_template", "render_template"]

# What running a template can raise: jinja2's own errors, and what its expressions do with unexpected data.
RENDER_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
)


class JsonArguments(dict[str, Any]):
    """A tool call's arguments for a template: an object, and where a template treats them as text, their JSON text.

    Official templates disagree: Qwen's and Llama's iterate over a mapping or dump it, DeepSeek-V3's appends a string.
    This serves both. As text it is exactly what the client sent, so no token of the history changes.
    """

    # No public attribute: templates look attributes up before items, so it would hide an argument of that name.
    __slots__ = ("__text",)

    def __init__(self, value: Mapping[str, Any], text: str) -> None:
        super().__init__(value)
        self.__text = text

    def __str__(self) -> str:
        return self.__text

    def __add__(self, other: str) -> str:
        return self.__text + other

    def __radd__(self, other: str) -> str:
        return other + self.__text


class GenerationTag(Extension):
    """``{% generation %}``: marks the assistant's part for training; here only its body counts."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it as an instance variable

    def parse(self, parser: Parser) -> nodes.Node:
        """Replace the tag by its body, in a scope of its own as in ``transformers``."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


class _Dict:
    """``dict(...)`` for templates, without the attributes of the class itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _SafeNamespace(Namespace):
    """``namespace(...)`` for templates, without underscored attributes, which reach interpreter internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that a template may store an attribute called `self`
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            _check_attribute(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot have the underscored attribute {name!r}")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals.update(
        raise_exception=_raise_exception, strftime_now=_strftime_now, dict=_Dict(), namespace=_SafeNamespace
    )
    return environment


_ENVIRONMENT = _environment()


def parse_template(source: str) -> nodes.Template:
    """The syntax tree of a template.

    Raises:
        TemplateError: it is not a template; says in which line.
    """
    try:
        return _ENVIRONMENT.parse(source)
    except (jinja2.TemplateError, RecursionError) as error:
        raise _syntax_error(error) from error


@lru_cache(maxsize=64)  # bounded, because trusted requests may bring templates of their own
def compile_template(source: str) -> jinja2.Template:
    """Compile a template, or take it from the cache.

    Raises:
        TemplateError: it is not a template; says in which line.
    """
    try:
        return _ENVIRONMENT.from_string(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
        raise _syntax_error(error) from error


def render_template(source: str, variables: Mapping[str, Any]) -> str:
    """Run a template on plain data.

    Raises:
        TemplateError: the template refuses the data (in its own words), breaks on it, or does what is forbidden.
    """
    template = compile_template(source)
    try:
        return template.render(variables)
    except RENDER_ERRORS as error:
        if type(error) is jinja2.TemplateError:  # raise_exception: written for the user
            raise TemplateError(str(error), "messages") from error
        if isinstance(error, jinja2.exceptions.SecurityError):
            message = f"the sandbox forbids what the chat template does: {error}"
        else:
            message = f"the chat template cannot render this request: {type(error).__name__}: {error}"
        raise TemplateError(message, "messages") from error


def _syntax_error(error: Exception) -> TemplateError:
    line = f" in line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
    return TemplateError(f"the chat template is not a valid jinja2 template{line}: {error}", "chat_template")
