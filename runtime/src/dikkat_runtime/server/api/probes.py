"""Probes of whoever keeps the server running, its counters, and what it says at its root."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from dikkat_runtime import __version__
from dikkat_runtime.server.api.schemas import TEXT, fields
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OWN, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.request_error import RequestError

_PLAIN, _PROMETHEUS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call) -> Response:
    """The server is alive."""
    return json_response({"status": "ok"})


async def ready(call: Call) -> Response:
    """The server takes requests; not while it finishes the last ones."""
    if call.services.is_draining:
        raise RequestError("unavailable", "the server is about to end")
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """All counters."""
    own = call.services.metrics
    own.waiting.set(call.services.engine.queue.segments)
    return Response(own.page(), headers={"content-type": _PROMETHEUS})


async def root(call: Call) -> Response:
    """What is served, in words."""
    models = ", ".join(f"{model.name} ({model.kind})" for model in call.catalog.models)
    lines = (
        f"dikkat-runtime {__version__} serves {models}.",
        "Interfaces: LibreTranslate at /, DeepL at /v2, Google at /language/translate/v2, OpenAI at /v1,",
        "Text Embeddings Inference at /predict and /embed, Hugging Face inference at /models/NAME.",
        "Described at /openapi.json. Probes: /health, /ready, /metrics.",
    )
    return PlainTextResponse("\n".join(lines) + "\n")


_STATUS = fields(("status",), status=TEXT)
_GET = ("GET",)

ENDPOINTS = [
    Endpoint(_GET, "/health", health, OWN, "Tell that the server is alive.", _STATUS, needs_key=False),
    Endpoint(_GET, "/ready", ready, OWN, "Tell whether requests are taken.", _STATUS, needs_key=False),
    Endpoint(_GET, "/metrics", metrics, OWN, "Show counters.", TEXT, media_type=_PROMETHEUS),
    Endpoint(_GET, "/", root, OWN, "Tell what is served.", TEXT, media_type=_PLAIN),
]
"""The routes of probes."""
