"""Translate whole files beside the requests: plain text line by line, other formats by their readers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath

from starlette.datastructures import UploadFile

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.formats import FORMATS
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.server.blocking import BlockingEngine
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_store import DocumentJob
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segments import Fixed, segments_of, split_text

TEXT_SUFFIX = ".txt"
_AT_ONCE = 64
"""Sentences of a document that wait together: between them it can be cancelled, and other requests are served."""


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
    job = DocumentJob(name, call.owner)
    store = call.services.documents
    store.add(job)
    data = await upload.read()
    call.detach(call.services.settings.limits.document_seconds)
    return job, store.run(_translate(call, job, data, model, suffix))


async def _translate(call: Call, job: DocumentJob, data: bytes, model: ServedModel, suffix: str) -> None:
    job.status = "translating"
    try:
        engine = _CountingEngine(call, model, job)
        if suffix == TEXT_SUFFIX:
            job.result = await asyncio.to_thread(_plain_text, engine, data, model.source)
        else:
            job.result = await asyncio.to_thread(_with_reader, engine, data, model)
        job.status = "done"
    except (RequestError, DikkatError) as error:
        job.status, job.problem = "error", str(error)
    except Exception as error:
        job.status, job.problem = "error", f"the document could not be translated ({type(error).__name__})"


class _CountingEngine(BlockingEngine):
    """An engine that counts the translated sentences of a document, and stops where it is cancelled."""

    def __init__(self, call: Call, model: ServedModel, job: DocumentJob) -> None:
        super().__init__(call, model)
        self.job = job

    def count(self, *texts: str) -> None:
        """Count texts to translate. Raises `RequestError` where the key may not send so many characters."""
        self.job.characters += sum(map(len, texts))
        self.count_characters(texts)

    def translate_texts(self, texts: Sequence[str]) -> list[str]:
        """Return the translation of each sentence, some at a time."""
        job, results = self.job, list[str]()
        job.segments += len(texts)
        for start in range(0, len(texts), _AT_ONCE):
            if job.is_cancelled:
                raise RequestError("unavailable", "the document was cancelled")
            results += [translation.text for translation in self.translate(texts[start : start + _AT_ONCE])]
            job.translated = job.segments - len(texts) + len(results)
        return results


def _plain_text(engine: _CountingEngine, data: bytes, language: str) -> bytes:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError("invalid", "the file is not valid UTF-8") from None
    engine.count(text)
    parts = split_text(text, language)
    translations = iter(engine.translate_texts(segments_of(parts)))
    return "".join(part.text if isinstance(part, Fixed) else next(translations) for part in parts).encode()


def _with_reader(engine: _CountingEngine, data: bytes, model: ServedModel) -> bytes:
    options = Options(model.source, model.target)

    def translate(texts: Sequence[str]) -> list[str]:
        engine.count(*texts)
        return engine.translate_texts(texts)

    done = translate_document(data, engine.job.name, translate, align=engine.align, options=options)
    engine.job.remarks = done.lines()
    return done.data
