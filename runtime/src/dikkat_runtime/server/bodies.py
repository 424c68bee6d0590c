"""Read the body of a request within a size and a time: JSON, a form, parts, or the query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from dikkat_runtime.server.request_error import ClientGone, RequestError
from dikkat_runtime.server.settings import Limits

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_MOST_FIELDS = 4096
_LONGEST_PART = 1 << 20


async def read_values(request: Request, limits: Limits, takes_files: bool = False) -> dict[str, Any]:
    """Return all fields: those of the query, then those of the body; a repeated field of a form is a list.

    Raises `RequestError`, and `ClientGone`.
    """
    query = request.scope["query_string"]
    values = _collected(_parsed_query(query)) if query else {}
    declared = header(request, b"content-type").partition(";")[0].strip().lower()
    if header(request, b"content-encoding").strip().lower() not in ("", "identity"):
        raise RequestError("media_type", "a compressed body is not read; send it as it is")
    try:
        async with asyncio.timeout(limits.body_seconds):
            if declared == PARTS:
                return values | await _parts(request, limits.upload_bytes if takes_files else limits.body_bytes)
            body = await _body(request, limits.body_bytes)
    except TimeoutError:
        raise RequestError("slow_client", f"the request was not complete after {limits.body_seconds:g} s") from None
    except ClientDisconnect:
        raise ClientGone from None
    if not body:
        return values
    if declared == FORM:
        return values | _collected(_parsed_query(body))
    if declared == JSON or declared.endswith("+json") or body.lstrip()[:1] in (b"{", b"["):
        return values | _parsed_json(body)
    raise RequestError("media_type", f"a body must be {JSON}, {FORM} or {PARTS}")


def header(request: Request, name: bytes) -> str:
    """Return a header by its name in small letters, empty where there is none; faster than those of the framework."""
    for key, value in request.scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return ""


async def _body(request: Request, most: int) -> bytes:
    _check_declared(request, most)
    chunks, size = list[bytes](), 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            _too_large(most)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _check_declared(request: Request, most: int) -> None:
    declared = header(request, b"content-length")
    if declared.isdecimal() and int(declared[:20]) > most:
        _too_large(most)


async def _capped(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    _check_declared(request, most)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            _too_large(most)
        yield chunk


def _too_large(most: int) -> NoReturn:
    raise RequestError("too_large", f"the request has more than {most:,} bytes")


async def _parts(request: Request, most: int) -> dict[str, Any]:
    """Return fields and files; files of over a megabyte are on the disk, without a name, until the request is over."""
    parser = MultiPartParser(
        request.headers, _capped(request, most), max_files=1, max_fields=_MOST_FIELDS, max_part_size=_LONGEST_PART
    )
    try:
        form = await parser.parse()
    except (MultiPartException, UnicodeDecodeError, ValueError, KeyError, LookupError) as error:
        raise RequestError("invalid", f"the parts of the body cannot be read: {type(error).__name__}") from None
    return _collected(form.multi_items())


def _collected(items: Iterable[tuple[str, str | UploadFile]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in items:
        if name in values:
            before = values[name]
            values[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            values[name] = value
    return values


def _parsed_query(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise RequestError("invalid", "the fields are not valid UTF-8") from None
    except ValueError:
        raise RequestError("too_large", f"there are more than {_MOST_FIELDS:,} fields") from None


def _parsed_json(body: bytes) -> dict[str, Any]:
    try:
        value = _DECODER.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise RequestError("invalid", f"the body is not valid JSON in UTF-8{where}") from None
    if not isinstance(value, dict):
        raise RequestError("invalid", "the body must be a JSON object")
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)
