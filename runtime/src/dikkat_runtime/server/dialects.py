"""Shape errors as each interface does."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.request_error import STATUS, Kind, RequestError
from dikkat_runtime.server.schemas import TEXT, required

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
Shape = Callable[[RequestError, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The shape of errors in one interface."""

    name: str
    shape: Shape
    beginnings: tuple[str, ...]
    """How its addresses begin."""
    statuses: Mapping[Kind, int] = field(default_factory=dict)
    """HTTP statuses that differ from the usual ones."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the shape."""

    def status(self, problem: RequestError) -> int:
        return self.statuses.get(problem.kind, STATUS[problem.kind])

    def response(self, problem: RequestError) -> Response:
        status = self.status(problem)
        headers = {}
        if problem.retry_after is not None or status in (429, 503):
            headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after or 1)))
        return json_response(self.shape(problem, status), status, headers)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of JSON in UTF-8, without spaces."""
    body = _ENCODER.encode(content).encode("utf-8", "replace")
    return Response(body, status, headers, media_type="application/json")


def _libretranslate(problem: RequestError, status: int) -> dict[str, Any]:
    return {"error": f"Slowdown: {problem.message}" if problem.kind in ("rate", "overloaded") else problem.message}


def _deepl(problem: RequestError, status: int) -> dict[str, Any]:
    return {"message": problem.message} | ({"detail": f"field {problem.param}"} if problem.param else {})


_GOOGLE_REASONS: dict[Kind, tuple[str, str]] = {
    "unauthorized": ("forbidden", "PERMISSION_DENIED"),
    "forbidden": ("forbidden", "PERMISSION_DENIED"),
    "not_found": ("notFound", "NOT_FOUND"),
    "rate": ("rateLimitExceeded", "RESOURCE_EXHAUSTED"),
    "overloaded": ("rateLimitExceeded", "RESOURCE_EXHAUSTED"),
    "timeout": ("backendError", "UNAVAILABLE"),
    "unavailable": ("backendError", "UNAVAILABLE"),
    "internal": ("backendError", "INTERNAL"),
}


def _google(problem: RequestError, status: int) -> dict[str, Any]:
    reason, name = _GOOGLE_REASONS.get(problem.kind, ("invalid", "INVALID_ARGUMENT"))
    error = {"message": problem.message, "domain": "global", "reason": reason}
    return {"error": {"code": status, "message": problem.message, "status": name, "errors": [error]}}


_OPENAI_TYPES: dict[Kind, tuple[str, str | None]] = {
    "unauthorized": ("authentication_error", "invalid_api_key"),
    "forbidden": ("permission_error", None),
    "not_found": ("invalid_request_error", "model_not_found"),
    "rate": ("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": ("rate_limit_error", "rate_limit_exceeded"),
    "timeout": ("server_error", "timeout"),
    "unavailable": ("server_error", None),
    "internal": ("server_error", None),
}


def _openai(problem: RequestError, status: int) -> dict[str, Any]:
    kind, code = _OPENAI_TYPES.get(problem.kind, ("invalid_request_error", None))
    return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": code}}


_TEI_TYPES: dict[Kind, str] = {
    "invalid": "validation",
    "unprocessable": "validation",
    "too_large": "validation",
    "rate": "overloaded",
    "overloaded": "overloaded",
    "timeout": "overloaded",
    "unavailable": "unhealthy",
    "internal": "backend",
}


def _tei(problem: RequestError, status: int) -> dict[str, Any]:
    return {"error": problem.message, "error_type": _TEI_TYPES.get(problem.kind, "validation")}


def _error(problem: RequestError, status: int) -> dict[str, Any]:
    return {"error": problem.message}


_ERROR, _MESSAGE = required(error=TEXT), required(message=TEXT)
_NULLABLE = {"type": ["string", "null"]}

LIBRETRANSLATE = Dialect(
    "LibreTranslate",
    _libretranslate,
    ("/translate", "/download_file", "/detect", "/languages", "/frontend", "/suggest"),
    {"unauthorized": 403, "too_large": 400, "unsupported": 403, "unprocessable": 400},
    _ERROR,
)
DEEPL = Dialect("DeepL", _deepl, ("/v2/",), {"unauthorized": 403}, _MESSAGE)
GOOGLE = Dialect("Google", _google, ("/language/",), {"unauthorized": 403}, required(error=_MESSAGE))
_PROBLEM = required(message=TEXT, type=TEXT, param=_NULLABLE, code=_NULLABLE)
OPENAI = Dialect("OpenAI", _openai, ("/v1/",), {}, required(error=_PROBLEM))
TEI = Dialect("TEI", _tei, ("/predict", "/embed", "/info"), {"unsupported": 422}, required(error=TEXT, error_type=TEXT))
HUGGING_FACE = Dialect("Hugging Face", _error, ("/models/",), {}, _ERROR)
OWN = Dialect("dikkat", _error, (), {}, _ERROR)


def dialect_of(path: str) -> Dialect:
    """Return the interface that an address belongs to."""
    others = (LIBRETRANSLATE, DEEPL, GOOGLE, OPENAI, TEI, HUGGING_FACE)
    return next((dialect for dialect in others if path.startswith(dialect.beginnings)), OWN)
