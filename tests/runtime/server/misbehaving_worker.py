"""A worker process that does what its document says: it loops, takes memory, ends, or raises."""

from __future__ import annotations

import os
import re

from dikkat_runtime.server import document_worker
from dikkat_runtime.server.document_worker import Message, ServerEngine
from dikkat_runtime.server.frames import Fields

USUAL = document_worker.answer


def answer(job: Fields, data: bytes, engine: ServerEngine) -> Message:
    """Do as the document says, else answer as usual."""
    text = "".join(job.get("texts", ())) or data.decode()
    if "loop without the lock" in text:
        while True:
            pass
    if "loop inside a library" in text:
        re.match(r"(a|aa)*b", "a" * 100)
    if "end at once" in text:
        os._exit(3)
    return USUAL(job, data, _Misread(text) if "memory" in text or "bug" in text else engine)


class _Misread(ServerEngine):
    """An engine of a document that cannot be read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def begin(self, job: Fields) -> None:
        """Take memory without end, or raise."""
        if "memory" in self._text:
            blocks = []
            while True:
                blocks.append(bytearray(1 << 20))
        raise LookupError(self._text)


document_worker.answer = answer

if __name__ == "__main__":
    document_worker.main()
