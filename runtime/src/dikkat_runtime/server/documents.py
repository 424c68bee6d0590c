"""Translate whole files next to the requests: plain text line by line, other formats by their readers."""

import asyncio
from pathlib import PurePath

from starlette.datastructures import UploadFile

from dikkat_runtime.documents.formats import FORMATS
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_store import DocumentJob, TranslatedFile
from dikkat_runtime.server.endpoint import as_request_error
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.worker_jobs import do_job, document_job

TEXT_SUFFIX = ".txt"


def supported_suffixes() -> list[str]:
    """Return the endings of files that can be translated."""
    return [TEXT_SUFFIX, *(ending for document_format in FORMATS for ending in document_format.endings)]


async def begin_document(call: Call, model: ServedModel) -> tuple[DocumentJob, asyncio.Task[None]]:
    """Accept the file of a request and begin to translate it. Raises `RequestError` for one of no known kind."""
    upload = call.fields.raw("file")
    if not isinstance(upload, UploadFile):
        raise call.fields.wrong("file", "must be a file, in a form of parts")
    named = call.fields.optional_text("filename") or upload.filename or "document.txt"
    name = PurePath(named.replace("\\", "/")).name[-200:] or "document.txt"
    # the client deepl sends an open file without its name
    suffix = PurePath(name).suffix.lower() or TEXT_SUFFIX
    if suffix not in (known := supported_suffixes()):
        raise RequestError("unsupported", f"files of this kind are not translated here; these are: {' '.join(known)}")
    if call.services.is_draining:
        raise RequestError("unavailable", "the server is about to end", retry_after=1)
    data = await upload.read()
    job = DocumentJob(name, call.owner)
    store = call.services.documents
    store.add(job)
    call.detach(call.services.settings.limits.document_seconds)
    work = _translate(call, job, data, model, "text" if suffix == TEXT_SUFFIX else "document")
    return job, store.run(job, work, call.share.move().close)


async def _translate(call: Call, job: DocumentJob, data: bytes, model: ServedModel, kind: str) -> None:
    def count(characters: int, sentences: int) -> None:
        job.status = "translating"
        job.characters += characters
        job.segments += sentences

    def progress(sentences: int) -> None:
        job.translated += sentences

    try:
        work = document_job(call, model, job.name, data, kind, count, progress)
        fields, written = await do_job(call, work, call.services.document_turns)
        # a disk may be slow
        job.keep(await asyncio.to_thread(TranslatedFile, written), fields["remarks"])
    except OSError as error:
        job.fail(RequestError("unavailable", f"the translated document cannot be kept: {error.strerror}"))
    except Exception as error:
        job.fail(as_request_error(error))
    except asyncio.CancelledError:
        job.fail(RequestError("unavailable", "the document was cancelled", retry_after=1))
        raise
