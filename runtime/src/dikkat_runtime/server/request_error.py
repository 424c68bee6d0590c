"""Errors of a request, for every interface."""

from typing import Literal

Kind = Literal[
    "invalid", "unauthorized", "forbidden", "not_found", "method", "too_large", "media_type", "unprocessable", "costly",
    "rate", "overloaded", "timeout", "slow_client", "unavailable", "unsupported", "internal",
]  # fmt: skip

STATUS: dict[Kind, int] = {
    "invalid": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method": 405,
    "slow_client": 408,
    "too_large": 413,
    "media_type": 415,
    "unprocessable": 422,
    "costly": 422,
    "rate": 429,
    "overloaded": 429,
    "internal": 500,
    "unsupported": 400,
    "timeout": 503,
    "unavailable": 503,
}
"""The HTTP status of each kind, where an interface has no other."""


class RequestError(Exception):
    """A request cannot be answered; the interface gives the error its shape."""

    def __init__(self, kind: Kind, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        """`param` names the field that is wrong; `retry_after` are seconds."""
        super().__init__(message)
        self.kind, self.message, self.param, self.retry_after = kind, message, param, retry_after


class ClientGone(Exception):  # noqa: N818  (nothing is wrong: nobody is left to answer)
    """The client left before its answer was ready."""
