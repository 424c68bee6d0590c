"""The probes of the keeper of a server, and its counters."""

from starlette.responses import Response

from dikkat_runtime.server.api.schemas import TEXT, fields
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OWN, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.request_error import RequestError

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call) -> Response:
    """Answer that the server is alive."""
    return json_response({"status": "ok"})


async def ready(call: Call) -> Response:
    """Answer whether the server takes requests; it does not while it finishes the last ones."""
    if call.services.is_draining:
        raise RequestError("unavailable", "the server is about to end")
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """Return all counters."""
    own = call.services.metrics
    own.waiting.set(call.services.engine.queue.segments)
    return Response(own.page(), headers={"content-type": _PROMETHEUS})


_STATUS = fields(("status",), status=TEXT)
_GET = ("GET",)

ENDPOINTS = [
    Endpoint(_GET, "/health", health, OWN, "Tell that the server is alive.", _STATUS, needs_key=False),
    Endpoint(_GET, "/ready", ready, OWN, "Tell whether requests are taken.", _STATUS, needs_key=False),
    Endpoint(_GET, "/metrics", metrics, OWN, "Show counters.", TEXT, media_type=_PROMETHEUS),
]
"""The routes of probes."""
