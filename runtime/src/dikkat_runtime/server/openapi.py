"""Describe all routes by OpenAPI, from the endpoints themselves."""

import re
from collections.abc import Sequence
from typing import Any

from dikkat_runtime import __version__
from dikkat_runtime.server.endpoint import Endpoint

_PARAMETER = re.compile(r"\{(\w+)\}")
_FORM_DIALECTS = ("LibreTranslate", "DeepL", "Google")


def describe(endpoints: Sequence[Endpoint], needs_key: bool) -> dict[str, Any]:
    """Return the description; `needs_key` if a key must be given."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        for method in endpoint.methods:
            paths.setdefault(endpoint.path, {})[method.lower()] = _operation(endpoint, method, needs_key)
    schemes = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dikkat-runtime", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes} if needs_key else {},
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
        "responses": {
            str(endpoint.status): success,
            "default": {"description": "What is wrong.", "content": error},
        },
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    if endpoint.body is not None and method in ("GET", "DELETE"):
        required = endpoint.body.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": schema}
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
