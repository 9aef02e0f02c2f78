"""Why an engine gave no answer."""

from __future__ import annotations

__all__ = ["EngineError"]


class EngineError(Exception):
    """An engine did not answer. It says what the client may know: neither a traceback nor the engine's address.

    Args:
        status: 502 when the engine broke or sent garbage, 503 when none is available, 504 when it timed out; or the
            engine's own 400, 404, 413, 422 or 429.
        message: why.
        param: the field of the request that the engine refused.
    """

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
