"""What goes wrong in a request, in the shape in which OpenAI's clients expect it."""

from __future__ import annotations

from typing import Any

from ...errors import DmexpError, InvalidArgumentError, LimitExceededError


class RequestError(Exception):
    """An answer other than 200.

    Parameters
    ----------
    status
        The HTTP status.
    message
        What was found and what to do.
    kind
        OpenAI's ``type``.
    param, code
        Which argument, and a stable name for the cause.
    retry_after
        Seconds after which the same request may succeed.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


def busy(waiting: int, seconds: int) -> RequestError:
    """429: the queue is full."""
    return RequestError(
        429,
        f"{waiting} requests are waiting, and no more are taken. Try again in {seconds} s.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        retry_after=seconds,
    )


def closing() -> RequestError:
    """503: the server is about to end."""
    return RequestError(
        503,
        "the server is shutting down. Send the request again once it is back.",
        kind="server_error",
        code="shutting_down",
        retry_after=5,
    )


_PARAMS: dict[Any, str] = {"tokens": "prompt", "chat": "messages"}
"""What the runtime calls an argument, and what a request does."""


def from_exception(error: BaseException) -> RequestError:
    """The answer for whatever happened while a request was worked on."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, InvalidArgumentError | LimitExceededError):
        param = _PARAMS.get(error.facts.get("argument"), error.facts.get("argument"))
        too_long = param == "prompt" and "limit" in error.facts
        return RequestError(
            400,
            error.message,
            param=param,
            code="context_length_exceeded" if too_long else error.code.lower(),
        )
    if isinstance(error, DmexpError):
        return RequestError(500, error.message, kind="server_error", code=error.code.lower())
    return RequestError(
        500,
        f"internal error, please report it: {type(error).__name__}: {error}",
        kind="server_error",
        code="internal",
    )
