"""Run the engine in one thread that owns the models, takes waiting work, and hands results to the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from dikkat_runtime.server.metrics import Metrics
from dikkat_runtime.server.segment_queue import SegmentQueue
from dikkat_runtime.server.settings import Limits
from dikkat_runtime.server.streams import StreamTable, TextStream
from dikkat_runtime.server.work import Batch

_ENDS_WITHIN = 2.0
"""Seconds in which the last batch is computed; the thread ends with the process."""


class EngineThread:
    """A thread that computes batches of segments, and between them a piece of each text that is generated."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.queue, self.streams, self._metrics = SegmentQueue(limits), StreamTable(limits), metrics
        self.is_closed = False
        """Whether nothing more is computed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        """Start to work for the present event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """Stop when no more work waits; what is computed for nobody any more is not waited for long."""
        with self.queue.changed:
            self.is_closed = True
            self.queue.changed.notify()
        self._thread.join(_ENDS_WITHIN)

    def write(self, stream: TextStream) -> None:
        """Add a text to generate. Raises `RequestError` where it would wait too long."""
        with self.queue.changed:
            self.streams.check()
            self.streams.waiting.append(stream)
            self.queue.changed.notify()

    def _work(self) -> None:
        while True:
            with self.queue.changed:
                batch, streams = self.queue.take(), self.streams.refresh()
                if batch is None and not streams:
                    if self.is_closed:
                        return
                    self.queue.changed.wait()
                    continue
            if batch is not None:
                self._compute(batch)
            for stream in streams:
                self._step(stream)

    def _compute(self, batch: Batch) -> None:
        start = time.monotonic()
        items = [segment.item for segment in batch.segments]
        try:
            results: list[Any] = batch.task.run(items)
        except Exception as error:
            # one segment may be at fault: compute the others alone
            results = [error] if len(items) == 1 else [_alone(batch, item) for item in items]
        seconds = time.monotonic() - start
        self.queue.measured(batch, seconds)
        self._metrics.batch(batch, start, seconds)
        self._in_loop(_deliver, batch, results)

    def _step(self, stream: TextStream) -> None:
        start = time.monotonic()
        goes_on, tokens = stream.step()
        self.streams.measured(tokens, time.monotonic() - start)
        self._metrics.written(tokens)
        if not goes_on:
            stream.is_cancelled = True

    def _in_loop(self, function: Any, *arguments: Any) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


def _alone(batch: Batch, item: Any) -> Any:
    try:
        return batch.task.run([item])[0]
    except Exception as error:
        return error


def _deliver(batch: Batch, results: list[Any]) -> None:
    for segment, result in zip(batch.segments, results, strict=True):
        segment.ticket.deliver(segment.index, result)
