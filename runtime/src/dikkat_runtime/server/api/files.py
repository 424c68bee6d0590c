"""Whole files: the routes of DeepL's documents and of LibreTranslate's files."""

import math
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from dikkat_runtime.engine.options import FORMALITIES
from dikkat_runtime.server.budget import PIECE
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import DEEPL, LIBRETRANSLATE, json_response
from dikkat_runtime.server.document_store import DocumentJob
from dikkat_runtime.server.endpoint import GET, POST, Endpoint
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import FLAG, TEXT, WHOLE, fields, required, words
from dikkat_runtime.server.translation import AUTO, translator_for
from dikkat_runtime.server.worker_jobs import begin_document

BYTES = "application/octet-stream"


async def upload(call: Call) -> Response:
    source, target = call.fields.optional_text("source_lang"), call.fields.text("target_lang")
    model = _model(call, source, target)
    if output_format := call.fields.optional_text("output_format"):
        message = f"output_format {output_format[:20]} is not supported here"
        raise RequestError("unsupported", message, param="output_format")
    job, _ = await begin_document(call, model)
    return json_response({"document_id": job.identity, "document_key": job.key})


async def status(call: Call) -> Response:
    job = own_document(call, "document_key")
    content: dict[str, object] = {"document_id": job.identity, "status": job.status}
    if job.status in ("queued", "translating"):
        content["seconds_remaining"] = max(1, math.ceil(call.services.engine.queue.estimated_seconds))
    if job.status == "done":
        content["billed_characters"] = job.characters
    if job.status == "error":
        content["error_message"] = str(job.problem)
    return json_response(content)


async def result(call: Call) -> Response:
    """Return the translated document, once."""
    job = own_document(call, "document_key")
    response = attachment(call, job)
    call.services.documents.remove(job)
    return response


async def translate_file(call: Call) -> Response:
    """Translate a file, and return the address of the translation."""
    source, target = call.fields.text("source"), call.fields.text("target")
    job, task = await begin_document(call, _model(call, None if source.lower() == AUTO else source, target))
    await call.while_connected(task)
    if job.problem is not None:
        raise job.problem
    path = f"/download_file/{job.identity}.{quote(job.name)}"
    return json_response({"translatedFileUrl": f"{call.request.base_url}".rstrip("/") + path})


async def download(call: Call) -> Response:
    """Return a translated file; its address, which nobody can guess, is its key."""
    return attachment(call, call.services.documents.get(call.request.path_params["name"].partition(".")[0]))


def _model(call: Call, source: str | None, target: str) -> ServedModel:
    """Return the translator; where the source language is left open, the first one into `target`."""
    sources = [source] if source else call.catalog.sources
    served = [language for language in sources if call.catalog.translator(language, target)]
    return translator_for(call, (served or sources or [AUTO])[0], target)


def own_document(call: Call, key: str) -> DocumentJob:
    """Return the document of the address, whose key is in the field `key`. Raises `RequestError`."""
    identity = call.request.path_params["document_id"]
    return call.services.documents.get_own(identity, call.fields.text(key), call.owner)


def attachment(call: Call, job: DocumentJob) -> Response:
    """Return a translated file, under the name of the original.

    Raises `RequestError` where it is not translated yet, or there is no memory.
    """
    if job.result is None:
        raise RequestError("unavailable", "the document is not translated yet", retry_after=1)
    # one piece in the buffer of the connection, and one that waits for room in it
    call.share.take(2 * PIECE)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(job.name)}",
        "Content-Length": str(job.result.size),
    }
    return StreamingResponse(job.result.pieces(), media_type=BYTES, headers=headers)


FILE = {"type": "string", "contentEncoding": "binary"}
"""JSON schema of an uploaded file."""
_UPLOAD = fields(
    {"file": FILE, "target_lang": TEXT}, source_lang=TEXT, filename=TEXT, model=TEXT,
    formality=words(*FORMALITIES), consistent=FLAG,
)  # fmt: skip
_TAKEN = required(document_id=TEXT, document_key=TEXT)
_KEY = required(document_key=TEXT)
_STATUS = fields({"document_id": TEXT, "status": TEXT}, billed_characters=WHOLE)
_ONE = "/v2/document/{document_id}"
_LTFILE = fields({"file": FILE, "source": TEXT, "target": TEXT}, consistent=FLAG)
_URL = required(translatedFileUrl=TEXT)

ENDPOINTS = [
    Endpoint(POST, "/v2/document", upload, DEEPL, "Send a document.", _TAKEN, _UPLOAD, takes_files=True),
    Endpoint(POST, _ONE, status, DEEPL, "Tell how far a document is.", _STATUS, _KEY),
    Endpoint(POST, f"{_ONE}/result", result, DEEPL, "Fetch a document.", TEXT, _KEY, media_type=BYTES),
    Endpoint(
        POST, "/translate_file", translate_file, LIBRETRANSLATE, "Translate a file.", _URL, _LTFILE, takes_files=True
    ),
    Endpoint(
        GET, "/download_file/{name}", download, LIBRETRANSLATE, "Fetch a file.", TEXT,
        media_type=BYTES, needs_key=False,
    ),
]  # fmt: skip
"""The routes of files."""
