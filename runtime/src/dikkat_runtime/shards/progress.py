"""Print the progress of all workers on standard error: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from dikkat_runtime.messages import msg, plural
from dikkat_runtime.shards.shard import Shard
from dikkat_runtime.shards.work import Work
from dikkat_runtime.text.visible import visible

PLAIN_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""
MOVING_EVERY = 0.25
CLEAR = "\r\x1b[2K"
"""Goes to the beginning of the line of a terminal and empties it."""


class Progress:
    """A counter of rows and files that prints the rate and the time that is left."""

    def __init__(self, shards: Sequence[Shard], stream: IO[str] | None, clock: Callable[[], float]) -> None:
        """`shards` are those to be done; nothing is printed without a `stream`."""
        self._stream, self._clock = stream, clock
        self._is_terminal = stream is not None and stream.isatty()
        self._files, self._bytes = len(shards), sum(shard.size for shard in shards)
        self._begun = self._last = clock()
        self._done_files, self._done_bytes, self.rows = 0, 0.0, 0
        self._open: dict[int, tuple[Work, int, float]] = {}
        self._is_line_open = False

    def at(self, worker: int, work: Work, rows: int, fraction: float) -> None:
        """Update the progress within a file; where its parts are joined, the rows were counted before."""
        self._open[worker] = work, rows if work.joined is None else 0, fraction
        self._show()

    def done(self, worker: int, size: float, rows: int, *, files: int = 1) -> None:
        """Count the files, bytes and rows that a worker has finished or given up."""
        self._open.pop(worker, None)
        self._done_files, self._done_bytes = self._done_files + files, self._done_bytes + size
        self.rows += rows
        self._show()

    def lost(self, worker: int) -> None:
        """Reset the progress of a file that has to be begun again."""
        self._open.pop(worker, None)

    def say(self, line: str) -> None:
        """Print a line of its own."""
        if self._stream is None:
            return
        self._write(f"{CLEAR if self._is_line_open else ''}{visible(line)}\n")
        self._is_line_open = False

    def line(self) -> str:
        """Return how far the work is."""
        rows = self.rows + sum(rows for _, rows, _ in self._open.values())
        share = self._done_bytes + sum(work.size * fraction for work, _, fraction in self._open.values())
        share /= max(1, self._bytes)
        seconds = max(1e-9, self._clock() - self._begun)
        left = msg(", {clock} left").fill(clock_time(seconds * (1 - share) / share)) if 0 < share < 1 else ""
        return msg("{done_files:,} of {files}, {rows}, {rows2:,.0f} rows/s{left}").fill(
            self._done_files, plural(self._files, "file"), plural(rows, "row"), rows / seconds, left
        )

    def _show(self) -> None:
        every = MOVING_EVERY if self._is_terminal else PLAIN_EVERY
        if self._stream is None or self._clock() - self._last < every:
            return
        self._last = self._clock()
        if not self._is_terminal:
            self.say(self.line())
            return
        self._write(f"{CLEAR}{visible(self.line())}")
        self._is_line_open = True

    def _write(self, text: str) -> None:
        # work does not end because nobody can be told how far it is
        with suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)  # type: ignore[union-attr]
            self._stream.flush()  # type: ignore[union-attr]

    def close(self) -> None:
        """End a moving line."""
        if self._is_line_open:
            self.say(self.line())


def estimate_line(
    sample: Mapping[str, float], sampled: Shard, shards: Sequence[Shard], workers: int, threads: int = 1
) -> str:
    """Return the expected time for all `shards`, from the time for the first rows of one of them.

    Each of the `workers` has so many `threads`, and takes as many processors.
    """
    times = sum(shard.size for shard in shards) / max(1, sampled.size)
    rows, seconds = round(sample["rows"] * times), sample["seconds"] * times
    by_workers = (
        ""
        if workers == 1
        else msg(" by {workers} workers, {clock_time} of processors").fill(workers, clock_time(seconds * threads))
    )
    about = msg("about {rows:,} rows in {files}").fill(rows, plural(len(shards), "file"))
    return msg("{about}: {clock_time}{by_workers} (by {name}, its first rows)").fill(
        about, clock_time(seconds / workers), by_workers, sampled.source.name
    )


def clock_time(seconds: float) -> str:
    """Return hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def monotonic() -> float:
    """Return seconds of a clock that is not set back."""
    return time.monotonic()
