"""The web application: all routes, after the checks of host and origin, and their description by OpenAPI."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dikkat_runtime import __version__
from dikkat_runtime.server import api
from dikkat_runtime.server.call import Call, Services
from dikkat_runtime.server.dialects import OWN, dialect_of, json_response
from dikkat_runtime.server.endpoint import GET, Endpoint, serve
from dikkat_runtime.server.request_error import Kind, RequestError
from dikkat_runtime.server.schemas import TEXT, fields, required

_PARAMETER = re.compile(r"\{(\w+)\}")
_FORM_DIALECTS = ("LibreTranslate", "DeepL", "Google")


def describe(endpoints: Sequence[Endpoint], needs_key: bool) -> dict[str, Any]:
    """Return the description; `needs_key` if a key must be given."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        for method in endpoint.methods:
            paths.setdefault(endpoint.path, {})[method.lower()] = _operation(endpoint, method, needs_key)
    return {
        "openapi": "3.1.0",
        "info": {"title": "dikkat-runtime", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}} if needs_key else {},
    }


def _operation(endpoint: Endpoint, method: str, needs_key: bool) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done."}
    if endpoint.status != 204:
        types = [endpoint.media_type, *endpoint.also.values()]
        success["content"] = {name: {"schema": dict(endpoint.answer) if "json" in name else {}} for name in types}
    error = {"application/json": {"schema": dict(endpoint.dialect.schema)}}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.dialect.name],
        "responses": {str(endpoint.status): success, "default": {"description": "What is wrong.", "content": error}},
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    if endpoint.body is not None and method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in endpoint.body.get("required", ()), "schema": schema}
            for name, schema in endpoint.body["properties"].items()
        ]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None and method == "POST":
        operation["requestBody"] = _body(endpoint)
    if needs_key and endpoint.needs_key:
        operation["security"] = [{"key": []}]
    return operation


def _body(endpoint: Endpoint) -> dict[str, Any]:
    schema = dict(endpoint.body or {})
    types = ["application/json"]
    if endpoint.dialect.name in _FORM_DIALECTS:
        types.append("application/x-www-form-urlencoded")
    return {"required": bool(schema.get("required")), "content": {name: {"schema": schema} for name in types}}


_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call) -> Response:
    return json_response({"status": "ok"})


async def ready(call: Call) -> Response:
    """Answer whether the server takes requests; it does not while it finishes the last ones."""
    if call.services.is_draining:
        raise RequestError("unavailable", "the server is about to end")
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    own = call.services.metrics
    own.waiting.set(call.services.engine.queue.segments)
    return Response(own.page(), headers={"content-type": _PROMETHEUS})


_STATUS = required(status=TEXT)

_PROBES = [
    Endpoint(GET, "/health", health, OWN, "Tell that the server is alive.", _STATUS, needs_key=False),
    Endpoint(GET, "/ready", ready, OWN, "Tell whether requests are taken.", _STATUS, needs_key=False),
    Endpoint(GET, "/metrics", metrics, OWN, "Show counters.", TEXT, media_type=_PROMETHEUS),
]
"""The routes of probes."""


ENDPOINTS = [
    endpoint
    for module in sorted(module.name for module in iter_modules(api.__path__))
    for endpoint in import_module(f"{api.__name__}.{module}").ENDPOINTS
] + _PROBES
"""Every route but that of the OpenAPI description."""
_ROUTE_PROBLEMS: dict[int, tuple[Kind, str]] = {
    404: ("not_found", "there is nothing at this address"),
    405: ("method", "this address does not answer to this method"),
}
_ALLOWED_HEADERS = "Authorization, Content-Type, X-API-Key, X-Goog-Api-Key, X-Deadline-Ms"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_POLICY = (b"content-security-policy", b"default-src 'none'")
_READERS = 32
"""Threads that read documents and marked-up texts, and mostly wait for the engine."""
Answer = Callable[[Request], Awaitable[Response]]


class Application:
    """All routes, after the checks that come before each."""

    def __init__(self, app: ASGIApp, services: Services, exact: Mapping[tuple[str, str], Answer]) -> None:
        """`exact` are the routes without parameters, by method and path, which need no search in `app`."""
        self._app, self._services, self._access, self._exact = app, services, services.access, exact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to its route."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._answer(scope, receive, send)
        except asyncio.CancelledError:
            # an answer that was begun, and cut off at the end of the server
            if not self._services.is_over:
                raise

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        origin = str(headers[b"origin"], "latin-1") if b"origin" in headers else None
        host = str(headers.get(b"host", b""), "latin-1")
        try:
            self._access.check_host(host)
            if origin is not None:
                self._access.check_origin(origin, host)
        except RequestError as problem:
            await dialect_of(scope["path"]).response(problem)(scope, receive, send)
            return
        if scope["method"] == "OPTIONS" and origin is not None and b"access-control-request-method" in headers:
            await _preflight(origin)(scope, receive, send)
            return
        answer = self._exact.get((scope["method"], scope["path"]))
        if answer is not None:
            response = await answer(Request(scope, receive, send))
            _secure(response.raw_headers, origin)
            await response(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _secure(message["headers"], origin)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _secure(headers: list[tuple[bytes, bytes]], origin: str | None) -> None:
    headers.append(_NO_SNIFFING)
    if all(name != _POLICY[0] for name, _ in headers):
        headers.append(_POLICY)
    if origin is not None:
        headers += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]


def build_application(services: Services) -> Application:
    description = describe(ENDPOINTS, services.access.needs_key)

    async def openapi(call: Call) -> Response:
        return json_response(description)

    own = Endpoint(GET, "/openapi.json", openapi, OWN, "Describe all routes.", fields(), needs_key=False)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_READERS, "reader"))
        services.engine.start()
        yield
        await services.documents.close()
        await services.workers.close()
        services.engine.close()

    handlers: dict[Any, Callable[[Request, Exception], Coroutine[Any, Any, Response]]] = {HTTPException: _no_route}
    answers = [(endpoint, serve(endpoint, services)) for endpoint in [*ENDPOINTS, own]]
    routes = [Route(endpoint.path, answer, methods=list(endpoint.methods)) for endpoint, answer in answers]
    exact = {
        (method, endpoint.path): answer
        for endpoint, answer in answers
        for method in endpoint.methods
        if "{" not in endpoint.path
    }
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Application(app, services, exact)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind, message = _ROUTE_PROBLEMS.get(error.status_code, ("invalid", "the request is not understood"))
    response = dialect_of(request.url.path).response(RequestError(kind, message))
    response.headers.update(error.headers or {})
    return response


def _preflight(origin: str) -> Response:
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }
    return Response(status_code=204, headers=headers)
