"""Keep the files of all clients while they are translated, and for a while after."""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any, Literal

from dikkat_runtime.server.budget import PIECE
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits

Status = Literal["queued", "translating", "done", "error"]


class TranslatedFile:
    """A file in memory, or a longer one on the disk without a name, which is gone once nobody holds this object."""

    def __init__(self, data: bytes) -> None:
        """Raises `OSError` where there is no disk for it."""
        self._file, self.size = SpooledTemporaryFile[bytes](max_size=PIECE), len(data)
        self._file.write(data)
        self._file.flush()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the file piece by piece; several may read it at once."""
        for start in range(0, self.size, PIECE):
            self._file.seek(start)
            yield self._file.read(PIECE)

    def __del__(self) -> None:
        """Free memory and disk."""
        with suppress(OSError):
            self._file.close()


@dataclass
class DocumentJob:
    """One file and the progress of its translation."""

    name: str
    """The name that the client gave, without folders; never used as a path."""
    owner: str
    identity: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    status: Status = "queued"
    problem: RequestError | None = None
    characters: int = 0
    segments: int = 0
    """Number of sentences to translate, as far as known."""
    translated: int = 0
    """Number of translated sentences."""
    remarks: list[str] = field(default_factory=list)
    """Notes on the translation."""
    work: asyncio.Task[None] | None = None
    expiry: asyncio.TimerHandle | None = None
    result: TranslatedFile | None = None

    @property
    def is_finished(self) -> bool:
        """True if nothing more is done for it."""
        return self.status in ("done", "error")

    def keep(self, result: TranslatedFile, remarks: list[str]) -> None:
        """Finish with a translated file."""
        self.result, self.remarks, self.status = result, remarks, "done"

    def fail(self, problem: RequestError) -> None:
        self.problem, self.status = problem, "error"

    def forget(self) -> None:
        """End the work on it, and free its translated file once nobody is sent it any more."""
        for waiting in (self.work, self.expiry):
            if waiting is not None:
                waiting.cancel()
        self.result = None


class DocumentStore:
    """The files of all clients; a new one replaces the oldest finished one of the same owner."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, DocumentJob] = {}

    def add(self, job: DocumentJob) -> None:
        """Keep a new file. Raises `RequestError` where too many of its owner are not finished."""
        most = self._limits.documents
        while len(own := [old for old in self._jobs.values() if old.owner == job.owner]) >= most:
            finished = [old for old in own if old.is_finished]
            if not finished:
                raise RequestError("overloaded", f"{most} documents are being translated", retry_after=10)
            self.remove(finished[0])
        self._jobs[job.identity] = job

    def run(
        self, job: DocumentJob, work: Coroutine[Any, Any, None], at_end: Callable[[], None] = lambda: None
    ) -> asyncio.Task[None]:
        """Begin to translate a file, which is deleted when its time is up; `at_end` is called however its work ends."""
        job.expiry = asyncio.get_running_loop().call_later(self._limits.document_seconds, self.remove, job)
        job.work = asyncio.ensure_future(work)
        job.work.add_done_callback(lambda task: at_end())
        return job.work

    async def close(self) -> None:
        """End all work on files."""
        running = [job.work for job in self._jobs.values() if job.work is not None and not job.work.done()]
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def get(self, identity: str) -> DocumentJob:
        """Return one file by its name, which nobody can guess. Raises `RequestError`."""
        job = self._jobs.get(identity)
        if job is None:
            raise RequestError("not_found", "there is no such document", param="document_id")
        return job

    def get_own(self, identity: str, key: str, owner: str) -> DocumentJob:
        """Return one file of an owner by its key. Raises `RequestError`."""
        job = self.get(identity)
        if job.owner != owner or not hmac.compare_digest(job.key.encode(), key.encode()):
            raise RequestError("not_found", "there is no such document", param="document_id")
        return job

    def remove(self, job: DocumentJob) -> None:
        """Delete a file, translated or not."""
        self._jobs.pop(job.identity, None)
        job.forget()
