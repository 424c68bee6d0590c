"""A worker: a process without a model that reads and writes documents, and asks the server for their sentences.

It bears what a stranger sent: it may take so much processor time and memory and no more, and the server ends it at
any moment. It ends with the server: when its standard input ends, even in the middle of its work.
"""

import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.fragments import Structure
from dikkat_runtime.documents.placement import MAX_WHOLE_LENGTH
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError, DikkatError, came_of_memory
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.process_signals import end_with_parent
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.frames import Fields, frame, read_frame
from dikkat_runtime.server.marked_up import translate_marked_up
from dikkat_runtime.server.segments import segments_of, split_text
from dikkat_runtime.tasks.aligner import word_spans

MAX_MAP_SIZE = 4_000_000
"""Characters of a sentence times those of its translation, above which tags are inserted without attention."""
_AT_ONCE = 64
"""Sentences of a document that are translated together: between them others get their turn."""
_RETIREMENT_MIB = 64
"""Growth after which a worker ends, so that its memory is free again."""
Message = tuple[Fields, bytes]
Send = Callable[[Fields, bytes], None]


class ServerEngine:
    """The engine of the server at the other end of the pipes."""

    def __init__(self, send: Send, receive: Callable[[], Message]) -> None:
        self._send, self._receive = send, receive
        self.batch_size: int | None = None
        """Sentences of one message; None for all."""
        self.unifies, self.notes = False, list[str]()
        """Whether a term has one translation in a document, and what became of that."""

    def begin(self, job: Fields) -> None:
        self.batch_size = None if job["kind"] == "marked_up" else _AT_ONCE
        self.unifies, self.notes = job.get("consistent", False), []

    def count(self, characters: int, sentences: int) -> None:
        """Announce so much text to the server, which may end this process for it."""
        self._ask({"do": "count", "characters": characters, "sentences": sentences})

    def translate(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the translations of each sentence, the best one first."""
        results, size = list[list[str]](), self.batch_size or max(1, len(texts))
        for start in range(0, len(texts), size):
            results += self._ask({"do": "translate", "texts": texts[start : start + size]})[0]["texts"]
        return results

    def translate_best(self, texts: Sequence[str]) -> list[str]:
        """Return the best translation of each sentence of a document, after counting them."""
        self.count(sum(map(len, texts)), len(texts))
        return self.unified(texts, [ranks[0] for ranks in self.translate(texts)])

    def unified(self, texts: Sequence[str], targets: list[str]) -> list[str]:
        """Return the translations of all texts of a document with one translation of each term, where that is asked."""
        if not self.unifies:
            return targets
        fields = self._ask({"do": "unify", "texts": texts, "targets": targets})[0]
        self.notes += [fields["note"]] if fields["note"] else []
        unified: list[str] = fields["texts"]
        return unified

    def align(self, source: str, target: str) -> Array:
        """Return weights (T, S) of the words of a translation on those of its source."""
        if len(source) * len(target) > MAX_MAP_SIZE:
            return np.zeros((len(word_spans(target)), len(word_spans(source))), np.float32)
        fields, data = self._ask({"do": "align", "source": source, "target": target})
        return np.frombuffer(data, np.float32).reshape(fields["shape"]).copy()

    def _ask(self, fields: Fields) -> Message:
        self._send(fields, b"")
        return self._receive()


def answer(job: Fields, data: bytes, engine: ServerEngine) -> Message:
    """Return the reply to a job: `done` with the result, or `failed` with the kind of the problem."""
    try:
        engine.begin(job)
        return {"marked_up": _marked_up, "text": _text, "document": _document}[job["kind"]](job, data, engine)
    except MemoryError:
        return {"do": "failed", "problem": "memory"}, b""
    except DikkatError as error:
        problem = "memory" if came_of_memory(error) else "document"
        return {"do": "failed", "problem": problem, "message": str(error)}, b""
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{entry.filename.rpartition('/')[2]}:{entry.lineno}" for entry in reversed(frames))
        return {"do": "failed", "problem": "bug", "message": type(error).__name__, "where": where}, b""


def _marked_up(job: Fields, data: bytes, engine: ServerEngine) -> Message:
    options = TextOptions(**{**job["options"], "structure": Structure(**job["options"]["structure"])})
    texts = translate_marked_up(engine.translate, engine.align, job["texts"], job["source"], options)
    return {"do": "done", "texts": texts}, b""


def _text(job: Fields, data: bytes, engine: ServerEngine) -> Message:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError("the file is not valid UTF-8") from None
    parts = split_text(text, job["source"], whole=MAX_WHOLE_LENGTH)
    segments = segments_of(parts)
    engine.count(len(text), len(segments))
    translations = iter(engine.unified(segments, [ranks[0] for ranks in engine.translate(segments)]))
    written = "".join(part.text if part.is_fixed else next(translations) for part in parts)
    return {"do": "done", "remarks": engine.notes}, written.encode()


def _document(job: Fields, data: bytes, engine: ServerEngine) -> Message:
    options = Options(job["source"], job["target"])
    done = translate_document(data, job["name"], engine.translate_best, align=engine.align, options=options)
    return {"do": "done", "remarks": [*done.lines(), *engine.notes]}, done.data


def main() -> None:
    """Serve the server at the other ends of standard input and output."""
    # the end of the input is not read while a library holds the interpreter
    end_with_parent(int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # the server says when it is over, whoever else gets its signals
        signal.signal(number, signal.SIG_IGN)
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    # what a library prints is not a reply
    os.dup2(2, 1)

    def send(fields: Fields, data: bytes) -> None:
        for part in (frame(fields, data), data):
            unwritten = memoryview(part)
            while unwritten:
                unwritten = unwritten[pipe.write(unwritten) :]

    messages = queue.SimpleQueue[Message]()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, messages), daemon=True).start()
    engine, memory = ServerEngine(send, messages.get), _peak_mib()
    with suppress(OSError):
        send({"do": "ready"}, b"")
        while True:
            job, data = messages.get()
            _limit(job["seconds"], job["memory"])
            reply, result = answer(job, data, engine)
            ends = reply.get("problem") in ("memory", "bug") or _peak_mib() > memory + _RETIREMENT_MIB
            send({**reply, "ends": ends}, result)
            if ends:
                return
            del job, data, reply, result


def _listen(pipe: BinaryIO, messages: queue.SimpleQueue[Message]) -> None:
    """Pass messages on; where there are no more, end the process even in the middle of its work."""
    try:
        while (message := read_frame(pipe)) is not None:
            messages.put(message)
        os._exit(0)
    finally:
        # whoever waits for a message that cannot be held would wait for ever
        os._exit(1)


def _limit(seconds: float, memory: int) -> None:
    """Allow so much more processor time and memory, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), most))
        with open("/proc/self/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _peak_mib() -> float:
    """Return the most memory that this process has held, 0 where the system does not say it."""
    with suppress(ImportError):
        import resource

        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return 0.0


if __name__ == "__main__":
    main()
