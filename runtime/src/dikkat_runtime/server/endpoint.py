"""Make a handler of calls an endpoint of the web framework, with fields, key, limits, errors and counters."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dikkat_runtime.errors import DikkatError
from dikkat_runtime.localization import say
from dikkat_runtime.server.bodies import read_body, read_query
from dikkat_runtime.server.budget import PIECE, Share
from dikkat_runtime.server.call import Call, Services, end_of_server
from dikkat_runtime.server.dialects import Dialect
from dikkat_runtime.server.fields import Fields
from dikkat_runtime.server.keys import Key
from dikkat_runtime.server.request_error import ClientGone, Kind, RequestError

Handler = Callable[[Call], Awaitable[Response]]
Schema = Mapping[str, Any]

GET, POST, BOTH = ("GET",), ("POST",), ("GET", "POST")
GONE = 499
"""Status in the counters of a request whose client has left; nobody receives it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route of an interface: its handler, and its description for OpenAPI."""

    methods: tuple[str, ...]
    path: str
    handler: Handler
    dialect: Dialect
    summary: str
    answer: Schema
    """JSON schema of a successful answer."""
    body: Schema | None = None
    """JSON schema of the fields, None where there are none."""
    status: int = 200
    media_type: str = "application/json"
    needs_key: bool = True
    takes_files: bool = False
    wrong_field: Kind = "invalid"
    """Kind of the problem of a field with a wrong value."""
    also: Mapping[int, str] = field(default_factory=dict)
    """Other statuses of success and their media types."""


def serve(endpoint: Endpoint, services: Services) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that the web framework calls for a request of this route."""
    metrics = services.metrics

    async def answer(request: Request) -> Response:
        start = time.perf_counter()
        with metrics.inflight.track_inprogress():
            response = await _answer(endpoint, services, request)
        seconds = time.perf_counter() - start
        metrics.requests.labels(endpoint.path, str(response.status_code)).inc()
        metrics.seconds.labels(endpoint.path).observe(seconds)
        if services.settings.log_requests:
            say(f"{request.method} {endpoint.path} {response.status_code} {1000 * seconds:.1f} ms")
        return response

    return answer


class _Held(Response):
    """An answer that holds its share of the budgets until its reader has taken all but its last pieces."""

    def __init__(self, response: Response, share: Share) -> None:
        self._response, self._share = response, share
        self.status_code, self.raw_headers = response.status_code, response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_pieces(message: Message) -> None:
            body = message.get("body", b"")
            last = max(0, len(body) - 1) // PIECE * PIECE
            for start in range(0, last, PIECE):
                await send({**message, "body": body[start : start + PIECE], "more_body": True})
            await send({**message, "body": body[last:]} if last else message)

        try:
            await self._response(scope, receive, send_in_pieces)
        finally:
            self._share.close()


async def _answer(endpoint: Endpoint, services: Services, request: Request) -> Response:
    call: Call | None = None
    share = Share(services.memory)
    try:
        values, key = await _read(endpoint, services, request, share)
        call = Call(services, request, Fields(values, services.settings.limits, endpoint.wrong_field), key, share)
        response = await endpoint.handler(call)
        share.take(len(getattr(response, "body", b"")))
        return _Held(response, share.move())
    except ClientGone:
        services.metrics.clients_gone.inc()
        return Response(status_code=GONE)
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and not services.is_over:
            raise
        problem = as_request_error(error) if isinstance(error, Exception) else end_of_server()
        services.metrics.rejected.labels(problem.kind).inc()
        return endpoint.dialect.response(problem)
    finally:
        if call is not None:
            call.close()
        share.close()


async def _read(
    endpoint: Endpoint, services: Services, request: Request, share: Share
) -> tuple[dict[str, Any], Key | None]:
    """Return fields and key: one in the head is checked before the body is read."""
    access, limits = services.access, services.settings.limits
    values = read_query(request)
    if not endpoint.needs_key and endpoint.body is None:
        return values, None
    key = access.key_before_body(request, values) if endpoint.needs_key else None
    is_unknown = endpoint.needs_key and access.needs_key and key is None
    if key:
        key.use("requests", 1)
    if is_unknown:
        share.enter(services.unkeyed)
    values |= await read_body(request, limits, share, services.steps, endpoint.takes_files)
    if is_unknown:
        key = access.key_in_body(values)
        share.leave(services.unkeyed)
        key.use("requests", 1)
    return values, key


def as_request_error(error: Exception) -> RequestError:
    """Return the error that a client gets; one of ours goes to the log, without the text that caused it."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, DikkatError):
        return RequestError("unprocessable", str(error))
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    say("internal error: {error} at {where}", type(error).__name__, where)
    if isinstance(error, MemoryError):
        return RequestError("unavailable", "no memory left", retry_after=5)
    return RequestError("internal", "an internal error; the server's log says where")
