"""Have a worker process read and write a file or texts with tags, and compute what it asks for meanwhile."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

import numpy as np
from starlette.datastructures import UploadFile

from dikkat_runtime.documents.formats import FORMATS
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.localization import say
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.document_store import DocumentJob, TranslatedFile
from dikkat_runtime.server.endpoint import as_request_error
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.frames import Fields
from dikkat_runtime.server.models import ModelTask, ServedModel, Translate, align_words, texts_of
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import READING_BYTES, Limits
from dikkat_runtime.server.workers import Turns, Worker, WorkerEnded

_GROWTH = 8
"""Times that a translated file may be as large as a request may be."""
_SILENCE = 5
"""Times the limit of processor time that a worker may be silent: a busy machine gives it a part of that time."""


@dataclass(frozen=True)
class Job:
    """One job of a worker, and the document that it is done for, if it is for one."""

    fields: Fields
    data: bytes
    task: Translate
    document: DocumentJob | None = None


def marked_up_job(call: Call, model: ServedModel, texts: Sequence[str], options: TextOptions, task: Translate) -> Job:
    structure = {name: list(value) if name != "detects" else value for name, value in asdict(options.structure).items()}
    sent = {
        "markup": options.markup, "structure": structure, "sentences": options.sentences, "lines": options.lines,
        "alternatives": options.alternatives,
    }  # fmt: skip
    fields = {"kind": "marked_up", "texts": list(texts), "options": sent}
    return Job({**fields, **_common(model, call.services.settings.limits, sum(map(len, texts)))}, b"", task)


async def do_job(call: Call, job: Job, turns: Turns) -> tuple[Fields, bytes]:
    """Return what a worker answers to a job, its fields and a file, once it is the turn of the call's owner.

    Raises `RequestError` for a document that cannot be read or takes too much, and as `Call.compute`.
    """
    patience = None if call.is_detached else call.services.settings.limits.wait_seconds

    async def wait(turn: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(patience):
                await call.wait_for(turn)
        except TimeoutError:
            message = "too busy: other long texts with tags are being read"
            raise RequestError("overloaded", message, retry_after=patience) from None

    async with turns.turn(call.owner, wait):
        try:
            fields, data = await call.wait_for(asyncio.ensure_future(_conversation(call, job)))
        except WorkerEnded as end:
            raise _explained(end, job) from None
    # after the lease: a worker that refuses a document has done its work and may do more
    if fields["do"] == "failed":
        raise _problem(fields, job)
    return fields, data


async def _conversation(call: Call, job: Job) -> tuple[Fields, bytes]:
    async with call.services.workers.lease() as worker:
        await worker.send(job.fields, job.data)
        return await _served(call, job, worker)


async def _served(call: Call, job: Job, worker: Worker) -> tuple[Fields, bytes]:
    silence, largest = _SILENCE * job.fields["seconds"], _GROWTH * call.services.settings.limits.upload_bytes
    while True:
        fields, data = await worker.receive(silence, largest)
        if fields["do"] in ("done", "failed"):
            worker.ends = fields["ends"]
            return fields, data
        if fields["do"] == "count":
            call.count(fields["characters"])
            if job.document is not None:
                job.document.status = "translating"
                job.document.characters += fields["characters"]
                job.document.segments += fields["sentences"]
            await worker.send({})
        elif fields["do"] == "translate":
            translations = await call.compute(job.task, fields["texts"])
            await worker.send({"texts": [texts_of(translation) for translation in translations]})
            if job.document is not None:
                job.document.translated += len(translations)
        elif fields["do"] == "unify":
            unify = job.task.model.model.unify
            # beside the engine's queue: between the sentences of a document others get their turn
            texts, note = await call.wait_for(
                asyncio.ensure_future(asyncio.to_thread(unify, fields["texts"], fields["targets"]))
            )
            await worker.send({"texts": texts, "note": note})
        else:
            align = ModelTask(job.task.model, align_words)
            (weights,) = await call.compute(align, [(fields["source"], fields["target"])])
            await worker.send({"shape": weights.shape}, np.ascontiguousarray(weights, np.float32).tobytes())


def _common(model: ServedModel, limits: Limits, size: int) -> Fields:
    return {
        "source": model.source,
        "target": model.target,
        "seconds": limits.reading_seconds * (1 + size // READING_BYTES),
        "memory": limits.reading_bytes,
    }


def _what(job: Job) -> str:
    return "the text" if job.fields["kind"] == "marked_up" else "the document"


def _explained(end: WorkerEnded, job: Job) -> RequestError:
    if end.took_too_long:
        seconds = job.fields["seconds"]
        return RequestError("costly", f"{_what(job)} takes over {seconds:g} s of a processor to read; it is not read")
    say("a worker that read {job} ended with {code}", _what(job), end.code)
    return RequestError("costly", f"{_what(job)} ended the process that read it; it is not read")


def _problem(fields: Fields, job: Job) -> RequestError:
    if fields["problem"] == "memory":
        most = job.fields["memory"]
        return RequestError("costly", f"{_what(job)} takes over {most:,} bytes of memory to read; it is not read")
    if fields["problem"] == "document":
        return RequestError("unprocessable", fields["message"])
    say("internal error: {error} at {where}", fields["message"], fields["where"])
    return RequestError("unprocessable", f"{_what(job)} could not be translated ({fields['message']})")


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
    search = BeamOptions(beam_size=call.services.settings.beam_size)
    task = Translate(model, search, formality=model.formality_of(call.fields))
    consistent = call.fields.flag("consistent", False)
    data = await upload.read()
    job = DocumentJob(name, call.owner)
    store = call.services.documents
    store.add(job)
    call.detach(call.services.settings.limits.document_seconds)
    kind = "text" if suffix == TEXT_SUFFIX else "document"
    work = _translate(call, job, data, task, kind, consistent)
    return job, store.run(job, work, call.share.move().close)


async def _translate(call: Call, job: DocumentJob, data: bytes, task: Translate, kind: str, consistent: bool) -> None:
    fields = {"kind": kind, "name": job.name, **_common(task.model, call.services.settings.limits, len(data))}
    fields["consistent"] = consistent
    try:
        answer, written = await do_job(call, Job(fields, data, task, job), call.services.document_turns)
        # a disk may be slow
        job.keep(await asyncio.to_thread(TranslatedFile, written), answer["remarks"])
    except OSError as error:
        job.fail(RequestError("unavailable", f"the translated document cannot be kept: {error.strerror}"))
    except Exception as error:
        job.fail(as_request_error(error))
    except asyncio.CancelledError:
        job.fail(RequestError("unavailable", "the document was cancelled", retry_after=1))
        raise
