"""Keep the files of all clients while they are translated, and for a while after."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits

Status = Literal["queued", "translating", "done", "error"]


@dataclass
class DocumentJob:
    """One file and the progress of its translation."""

    name: str
    """The name that the client gave, without folders; never used as a path."""
    owner: str
    identity: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    status: Status = "queued"
    result: bytes = b""
    problem: str = ""
    characters: int = 0
    segments: int = 0
    """Number of sentences to translate, as far as known."""
    translated: int = 0
    """Number of translated sentences."""
    remarks: list[str] = field(default_factory=list)
    """Notes on the translation."""
    is_cancelled: bool = False
    created: float = field(default_factory=time.monotonic)


class DocumentStore:
    """The files of all clients, in memory; a new one replaces the oldest finished one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, DocumentJob] = {}
        self._running = set[asyncio.Task[None]]()

    def add(self, job: DocumentJob) -> None:
        """Keep a new file. Raises `RequestError` where too many are not finished."""
        most, kept, now = self._limits.documents, self._limits.document_seconds, time.monotonic()
        self._jobs = {name: old for name, old in self._jobs.items() if now - old.created < kept}
        while len(self._jobs) >= most:
            finished = [old for old in self._jobs.values() if old.status in ("done", "error")]
            if not finished:
                raise RequestError("overloaded", f"{most} documents are being translated", retry_after=10)
            del self._jobs[finished[0].identity]
        self._jobs[job.identity] = job

    def run(self, work: Any) -> asyncio.Task[None]:
        """Begin to translate a file."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

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
        """Delete a file."""
        self._jobs.pop(job.identity, None)
