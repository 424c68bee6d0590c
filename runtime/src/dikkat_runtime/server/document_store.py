"""Keep the files of all clients while they are translated, and for a while after."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any, Literal

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits

Status = Literal["queued", "translating", "done", "error"]
_IN_MEMORY = 65_536
"""Bytes of a translated file that stay in memory; a larger one is on the disk, without a name."""


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
    created: float = field(default_factory=time.monotonic)
    work: asyncio.Task[None] | None = None
    _result: SpooledTemporaryFile[bytes] | None = None

    @property
    def is_finished(self) -> bool:
        """True if nothing more is done for it."""
        return self.status in ("done", "error")

    @property
    def size(self) -> int:
        """Bytes of the translated file."""
        return self._result.seek(0, 2) if self._result else 0

    def keep(self, result: bytes, remarks: list[str]) -> None:
        """Finish with a translated file. Raises `OSError` where there is no disk for it."""
        self._result = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  (closed by `forget`)
        self._result.write(result)
        self._result.flush()
        self.remarks, self.status = remarks, "done"

    def fail(self, problem: RequestError) -> None:
        """Finish without one."""
        self.problem, self.status = problem, "error"

    def read(self) -> bytes:
        """Return the translated file."""
        assert self._result is not None
        self._result.seek(0)
        return self._result.read()

    def forget(self) -> None:
        """End the work on it, and free its translated file."""
        if self.work is not None:
            self.work.cancel()
        if self._result is not None:
            self._result.close()


class DocumentStore:
    """The files of all clients; a new one replaces the oldest finished one of the same owner."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, DocumentJob] = {}

    def add(self, job: DocumentJob) -> None:
        """Keep a new file. Raises `RequestError` where too many of its owner are not finished."""
        most, kept, now = self._limits.documents, self._limits.document_seconds, time.monotonic()
        for old in list(self._jobs.values()):
            if now - old.created >= kept:
                self.remove(old)
        while len(own := [old for old in self._jobs.values() if old.owner == job.owner]) >= most:
            finished = [old for old in own if old.is_finished]
            if not finished:
                raise RequestError("overloaded", f"{most} documents are being translated", retry_after=10)
            self.remove(finished[0])
        self._jobs[job.identity] = job

    def run(
        self, job: DocumentJob, work: Coroutine[Any, Any, None], at_end: Callable[[], None] = lambda: None
    ) -> asyncio.Task[None]:
        """Begin to translate a file; `at_end` is called however that ends."""
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
