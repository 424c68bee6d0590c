"""Whole files, translated beside the requests: plain text here, other formats where `dikkat_runtime.documents` is."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import PurePath

from starlette.datastructures import UploadFile

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_store import KEPT_SECONDS, DocumentJob
from dikkat_runtime.server.models import ServedModel, Translate
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.translation import Wish, translate_texts

TEXT_SUFFIX = ".txt"
_READERS = "dikkat_runtime.documents"


def supported_suffixes() -> list[str]:
    """Endings of files that can be translated."""
    suffixes = [TEXT_SUFFIX]
    if importlib.util.find_spec(_READERS) is not None:
        formats = importlib.import_module(f"{_READERS}.formats").FORMATS
        suffixes += [ending for each in formats for ending in each.endings]
    return suffixes


async def begin_document(call: Call, model: ServedModel) -> tuple[DocumentJob, asyncio.Task[None]]:
    """Take the file of a request and begin to translate it. Raises `RequestError` for one of no known kind."""
    upload = call.fields.raw("file")
    if not isinstance(upload, UploadFile):
        raise call.fields.wrong("file", "must be a file, in a form of parts")
    named = call.fields.optional_text("filename") or upload.filename or "document.txt"
    name = PurePath(named.replace("\\", "/")).name[-200:] or "document.txt"
    # deepl sends an open file without its name
    suffix = PurePath(name).suffix.lower() or TEXT_SUFFIX
    if suffix not in (known := supported_suffixes()):
        raise RequestError("unsupported", f"files of this kind are not translated here; these are: {' '.join(known)}")
    job = DocumentJob(name, call.owner)
    store = call.services.documents
    store.add(job)
    data = await upload.read()
    call.detach(KEPT_SECONDS)
    return job, store.run(_translate(call, job, data, model, suffix))


async def _translate(call: Call, job: DocumentJob, data: bytes, model: ServedModel, suffix: str) -> None:
    job.status = "translating"
    try:
        if suffix == TEXT_SUFFIX:
            job.result = await _plain_text(call, job, data, model)
        else:
            job.result = await _with_reader(call, job, data, model)
        job.status = "done"
    except (RequestError, DikkatError) as error:
        job.status, job.problem = "error", str(error)
    except Exception as error:
        job.status, job.problem = "error", f"the document could not be translated ({type(error).__name__})"


async def _plain_text(call: Call, job: DocumentJob, data: bytes, model: ServedModel) -> bytes:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError("invalid", "the file is not valid UTF-8") from None
    job.characters = len(text)
    call.count_characters([text])
    (translated,) = await translate_texts(call, model, [text], Wish())
    return translated.text.encode()


async def _with_reader(call: Call, job: DocumentJob, data: bytes, model: ServedModel) -> bytes:
    """The reader works in a thread of its own and asks the event loop for translations."""
    documents = importlib.import_module(f"{_READERS}.documents")
    options = importlib.import_module(f"{_READERS}.segments").Options(model.source, model.target)
    task = Translate(model, BeamOptions(beam_size=call.services.settings.beam_size))
    loop = asyncio.get_running_loop()

    def translate(texts: Sequence[str]) -> list[str]:
        job.characters += sum(map(len, texts))
        found = asyncio.run_coroutine_threadsafe(call.compute(task, list(texts)), loop).result()
        return [each.text for each in found]

    done = await asyncio.to_thread(documents.translate_document, data, job.name, translate, options=options)
    call.count_characters(["x" * job.characters])
    return bytes(done.data)
