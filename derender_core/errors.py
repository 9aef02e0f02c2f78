"""Every exception that derender raises on purpose.

    DerenderError
    ├── ParserLoadError (LookupError)        a parser cannot be found or loaded; raised at start-up
    │   ├── UnknownParserError               no distribution declares the name
    │   ├── AmbiguousParserError             several distributions declare it
    │   ├── UnsureParserError                ``auto`` was asked for, and not exactly one parser recognises the model
    │   └── BrokenParserError                it does not import, or lacks a hook, or has a wrong signature
    ├── ParserError (RuntimeError)           a parser raised or broke the hook contract while parsing; names the parser
    ├── TokenizerLoadError (ValueError)      tokenizer files are missing or cannot be read
    └── InputError (ValueError)              the caller sent something wrong; ``param`` is the dotted path of the field
        ├── TokenIdError                     a token id out of range
        ├── StateError                       a ``stream_state`` that was not made here, or not for this configuration
        └── TemplateError                    a chat template that refuses the request, or cannot be rendered

``InputError`` is the caller's fault, ``ParserError`` the plugin's, everything else ours.
"""

from __future__ import annotations

__all__ = [
    "AmbiguousParserError",
    "BrokenParserError",
    "DerenderError",
    "InputError",
    "ParserError",
    "ParserLoadError",
    "StateError",
    "TemplateError",
    "TokenIdError",
    "TokenizerLoadError",
    "UnknownParserError",
    "UnsureParserError",
]


class DerenderError(Exception):
    """Base of every exception of this project."""


class ParserLoadError(DerenderError, LookupError):
    """A parser cannot be found or loaded."""


class UnknownParserError(ParserLoadError):
    """No installed distribution declares this parser name."""


class AmbiguousParserError(ParserLoadError):
    """Several installed distributions declare this parser name."""


class UnsureParserError(ParserLoadError):
    """A parser was to be chosen by the model's files, and none or several of the installed ones recognise it."""


class BrokenParserError(ParserLoadError):
    """The parser's distribution declares it, but it cannot be used."""


class ParserError(DerenderError, RuntimeError):
    """A parser raised or broke the hook contract while parsing. The message names the parser."""


class TokenizerLoadError(DerenderError, ValueError):
    """Tokenizer files are missing or cannot be read."""


class InputError(DerenderError, ValueError):
    """The caller sent something wrong.

    Args:
        message: what is wrong and how to fix it.
        param: dotted path of the field, such as ``generate_response.choices.0.token_ids``.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class TokenIdError(InputError):
    """A token id below 0, or at or above the model's vocabulary size."""


class StateError(InputError):
    """A stream state that was not made here, or not for this configuration."""


class TemplateError(InputError):
    """A chat template that refuses the request, or cannot be rendered."""
