"""The documents of the page: sent, watched while they are translated, fetched or deleted."""

from typing import Any

from starlette.responses import Response

from dikkat_runtime.server.api.files import FILE, attachment
from dikkat_runtime.server.api.schemas import TEXT, WHOLE, fields, list_of
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OWN, json_response
from dikkat_runtime.server.document_store import DocumentJob
from dikkat_runtime.server.documents import begin_document
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.request_error import RequestError


async def send(call: Call) -> Response:
    """Accept a document and begin to translate it."""
    model = call.catalog.chosen(call.fields.text("model"), "translator")
    job, _ = await begin_document(call, model)
    return json_response({"id": job.identity, "key": job.key})


async def watch(call: Call) -> Response:
    """Return the progress of a document."""
    job = _job(call)
    content: dict[str, Any] = {
        "status": job.status, "name": job.name, "segments": job.segments, "translated": job.translated,
        "remarks": job.remarks,
    }  # fmt: skip
    return json_response(content | ({"problem": str(job.problem)} if job.status == "error" else {}))


async def fetch(call: Call) -> Response:
    """Return the translated document."""
    job = _job(call)
    if job.status != "done":
        raise RequestError("unavailable", "the document is not translated yet", retry_after=1)
    return attachment(call, job)


async def give_up(call: Call) -> Response:
    """Delete a document, translated or not."""
    job = _job(call)
    call.services.documents.remove(job)
    return Response(status_code=204)


def _job(call: Call) -> DocumentJob:
    identity, key = call.request.path_params["document_id"], call.fields.text("key")
    return call.services.documents.get_own(identity, key, call.owner)


_ONE, _GET = "/page/documents/{document_id}", ("GET",)
_KEY = fields(("key",), key=TEXT)
_TAKEN = fields(("id", "key"), id=TEXT, key=TEXT)
_BODY = fields(("file", "model"), file=FILE, model=TEXT, filename=TEXT)
_STATUS = fields(
    ("status", "name", "segments", "translated"),
    status=TEXT, name=TEXT, segments=WHOLE, translated=WHOLE, problem=TEXT, remarks=list_of(TEXT),
)  # fmt: skip
_BYTES = "application/octet-stream"

ENDPOINTS = [
    Endpoint(("POST",), "/page/documents", send, OWN, "Send a document.", _TAKEN, _BODY, takes_files=True),
    Endpoint(_GET, _ONE, watch, OWN, "Tell how far a document is.", _STATUS, _KEY),
    Endpoint(_GET, f"{_ONE}/file", fetch, OWN, "Fetch a document.", TEXT, _KEY, media_type=_BYTES),
    Endpoint(("DELETE",), _ONE, give_up, OWN, "Forget a document.", fields(), _KEY, status=204),
]
"""The routes of the page's documents."""
