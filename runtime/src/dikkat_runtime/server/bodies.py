"""Read the body of a request within a size and a time: JSON, a form, parts, or the query."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

import numpy as np
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from dikkat_runtime.server.budget import Share
from dikkat_runtime.server.request_error import ClientGone, RequestError
from dikkat_runtime.server.segments import in_thread
from dikkat_runtime.server.settings import Limits

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_MAX_FIELDS = 4096
_MAX_PART_LENGTH = 1 << 20
_MAX_PARTS = 1024
_PIECE = 4096
"""Bytes of parts that are parsed before the time is looked at."""
_STEP_SECONDS = 0.005
"""Processor time in which parts are parsed before others get their turn."""
_QUICK = 16_384
"""Bytes of a form that are parsed in the event loop; more are parsed next to it."""
_MAX_VALUES = 100_000
"""Most commas and brackets of JSON: each may become an object of the interpreter."""
_VALUE_BYTES = 64
"""Memory of such an object."""
_LONG_VALUE = 256
"""Bytes of a field whose escapes are decoded all at once; a hostile one has hundreds of thousands."""
_HEX_DIGITS = np.full(256, 16, np.uint8)
"""The value of each byte as a hexadecimal digit, 16 where it is none."""
_HEX_DIGITS[list(b"0123456789abcdef")] = _HEX_DIGITS[list(b"0123456789ABCDEF")] = range(16)


def read_query(request: Request) -> dict[str, Any]:
    """Return the fields of the query. Raises `RequestError`."""
    query = request.scope["query_string"]
    return _collected(_parsed_query(query)) if query else {}


async def read_body(
    request: Request, limits: Limits, share: Share, steps: asyncio.Semaphore, takes_files: bool = False
) -> dict[str, Any]:
    """Return the fields of the body, which counts in `share`; a repeated field of a form is a list.

    Each of the `steps` in which parts are parsed is short, and few are taken at once.

    Raises `RequestError`, and `ClientGone`.
    """
    declared = header(request, b"content-type").partition(";")[0].strip().lower()
    if header(request, b"content-encoding").strip().lower() not in ("", "identity"):
        raise RequestError("media_type", "a compressed body is not read; send it as it is")
    most = limits.upload_bytes if takes_files and declared == PARTS else limits.body_bytes
    chunks = _chunks(request, most, share)
    try:
        async with asyncio.timeout(limits.body_seconds), aclosing(chunks):
            if declared == PARTS:
                async with aclosing(_in_steps(chunks, steps)) as pieces:
                    return await _parts(request, pieces)
            body = b"".join([chunk async for chunk in chunks])
    except TimeoutError:
        raise RequestError("slow_client", f"the request was not complete after {limits.body_seconds:g} s") from None
    if not body:
        return {}
    if declared == FORM:
        return _collected(_parsed_query(body) if len(body) <= _QUICK else await in_thread(_parsed_query, body))
    if declared == JSON or declared.endswith("+json") or body.lstrip()[:1] in (b"{", b"["):
        values = sum(map(body.count, (b",", b"[", b"{")))
        if values > _MAX_VALUES:
            raise RequestError("too_large", f"the body has more than {_MAX_VALUES:,} commas and brackets")
        share.take(_VALUE_BYTES * values)
        return _parsed_json(body)
    raise RequestError("media_type", f"a body must be {JSON}, {FORM} or {PARTS}")


def header(request: Request, name: bytes) -> str:
    """Return a header by its name in small letters, empty where there is none; faster than those of the framework."""
    return next((str(value, "latin-1") for key, value in request.scope["headers"] if key == name), "")


async def _chunks(request: Request, most: int, share: Share) -> AsyncGenerator[bytes, None]:
    """Yield a body as it comes; it counts in `share`. Raises `RequestError` for one that is too large."""
    declared = header(request, b"content-length")
    if declared.isdecimal() and int(declared[:20]) > most:
        _too_large(most)
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body = message.get("body", b"")
        size += len(body)
        if size > most:
            _too_large(most)
        share.take(len(body))
        if body:
            yield body
        if not message.get("more_body", False):
            return


def _too_large(most: int) -> NoReturn:
    raise RequestError("too_large", f"the request has more than {most:,} bytes")


async def _in_steps(chunks: AsyncGenerator[bytes, None], steps: asyncio.Semaphore) -> AsyncGenerator[bytes, None]:
    """Yield small pieces of a body; after those that took their reader long, others get their turn."""
    async for chunk in chunks:
        async with steps:
            began = time.thread_time()
            for start in range(0, len(chunk), _PIECE):
                if time.thread_time() - began > _STEP_SECONDS:
                    await asyncio.sleep(0)
                    began = time.thread_time()
                yield chunk[start : start + _PIECE]


async def _parts(request: Request, pieces: AsyncGenerator[bytes, None]) -> dict[str, Any]:
    """Return fields and files; files of over a megabyte are on the disk, without a name, until the request is over."""
    parser = MultiPartParser(
        request.headers, pieces, max_files=1, max_fields=_MAX_PARTS, max_part_size=_MAX_PART_LENGTH
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
    pairs = text.split(b"&")
    if len(pairs) > _MAX_FIELDS:
        raise RequestError("too_large", f"there are more than {_MAX_FIELDS:,} fields")
    fields = [pair.replace(b"+", b" ").partition(b"=") for pair in pairs if pair]
    try:
        return [(unquoted(name).decode(), unquoted(value).decode()) for name, _, value in fields]
    except UnicodeDecodeError:
        raise RequestError("invalid", "the fields are not valid UTF-8") from None


def unquoted(text: bytes) -> bytes:
    """Return a text with the bytes that its escapes stand for, as `unquote_to_bytes` does, but a long one faster."""
    if len(text) < _LONG_VALUE or b"%" not in text:
        return unquote_to_bytes(text)
    data = np.frombuffer(text, np.uint8)
    starts = np.flatnonzero(data[:-2] == ord("%"))
    digits = _HEX_DIGITS[data[starts[:, None] + (1, 2)]]
    is_escape = digits.max(axis=1, initial=0) < 16
    starts, digits = starts[is_escape], digits[is_escape]
    decoded, is_kept = data.copy(), np.ones(len(data), bool)
    decoded[starts] = 16 * digits[:, 0] + digits[:, 1]
    is_kept[starts + 1] = is_kept[starts + 2] = False
    return decoded[is_kept].tobytes()


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
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)
