"""The driver gives files to workers, again where a worker died, and reports at the end which are whole."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dikkat_runtime.errors import (
    DikkatError,
    DiskError,
    InternalError,
    OutOfMemoryError,
    StoppedError,
    UsageError,
    joined,
    msg,
    plural,
)
from dikkat_runtime.localization import clock_time, visible
from dikkat_runtime.process_signals import signals_held
from dikkat_runtime.shards.processes import Workers
from dikkat_runtime.shards.work import Shard, Work, share_out, to_json
from dikkat_runtime.shards.worker import Reply
from dikkat_runtime.shards.writing import joined as joined_parts
from dikkat_runtime.shards.writing import remove_half_written

# Print the progress of all workers on standard error: one moving line on a terminal, plain lines elsewhere.

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
        left = msg(", {time} left", clock_time(seconds * (1 - share) / share)) if 0 < share < 1 else ""
        return msg("{done:,} of {files}, {rows}, {rate:,.0f} rows/s{remaining}").fill(
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
    by_workers = ""
    if workers != 1:
        by_workers = msg(" by {workers} workers, {time} of processor time", workers, clock_time(seconds * threads))
    about = msg("about {rows:,} rows in {files}", rows, plural(len(shards), "file"))
    return msg("{work}: {time}{workers} (estimated from the first rows of {file})").fill(
        about, clock_time(seconds / workers), by_workers, sampled.source.name
    )


TRIES = 3
"""Tries of a file whose worker dies."""
_WAIT = 0.5
"""Seconds."""


@dataclass(slots=True)
class Result:
    """The result of a call."""

    skipped_items: int = 0
    """Files that an earlier call had written."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Records of the files that this call has written."""
    bad: dict[Path, DikkatError] = field(default_factory=dict)
    """Files that cannot be read, and why."""
    poison: dict[Path, str] = field(default_factory=dict)
    """Files on which a worker died each time, and how."""

    def count(self, name: str) -> int:
        """Return the sum of one count over all files that were written."""
        return sum(int(record[name]) for record in self.records)

    def lines(self) -> list[str]:
        """Return what a user should know."""
        lines: list[str] = []
        if self.skipped_items:
            lines.append(msg("{files} already complete, skipped", plural(self.skipped_items, "file")))
        counts = [
            msg(text).fill(self.count(name))
            for name, text in (
                ("empty", "{count:,} empty"),
                ("cut", "{count:,} with a sentence cut"),
                ("looped", "{count:,} came out as a loop and were answered again"),
                ("unfinished", "{count:,} unfinished"),
                ("failed", "{count:,} failed (see the files _….errors.jsonl)"),
            )
            if self.count(name)
        ]
        if self.records:
            written, rows = plural(len(self.records), "file"), plural(self.count("rows"), "row")
            line = msg("wrote {files}, {rows}", written, rows)
            if counts:
                line = msg("wrote {files}, {rows}: {events}", written, rows, joined(", ", counts))
            lines.append(line)
        return lines

    def check(self) -> None:
        """Raise `StoppedError` for files that no worker survives, else the error of the first file that is bad."""
        if self.poison:
            path, reason = next(iter(self.poison.items()))
            more = msg(" (and {files})", plural(len(self.poison) - 1, "more file")) if len(self.poison) > 1 else ""
            raise StoppedError(
                "{path}: given up after {tries} tries: {reason}{more}; the other files are complete; run the "
                "same command again for the rest"
            ).fill(path, TRIES, reason, more)
        if self.bad:
            error = next(iter(self.bad.values()))
            others = msg(" (and {files} that cannot be used)", plural(len(self.bad) - 1, "more file"))
            more = others if len(self.bad) > 1 else ""
            raise type(error)(msg("{error}{more}", error, more))


def _remove_answers(work: Work) -> None:
    for path in work.answers:
        path.unlink(missing_ok=True)


class Driver:
    """Works on shards by `num_workers` workers."""

    def __init__(
        self, workers: Workers, num_workers: int, shards: Sequence[Shard], stream: IO[str] | None, *, threads: int = 1
    ) -> None:
        """`stream` gets the progress; each worker has so many `threads`."""
        self._workers, self._num_workers, self._threads = workers, num_workers, threads
        self._shards = list(shards)
        self._waiting = deque(share_out(shards, num_workers))
        self._busy = dict[int, Work]()
        self._answered = dict[Path, list[dict[str, Any]]]()
        """Results of the parts of files that are not joined yet."""
        self._tries = dict[tuple[Path, int, bool] | None, int]()
        """By source, part, and whether answers were wanted; None for workers that had nothing yet."""
        self._early = list[tuple[int, Reply]]()
        """Replies of the workers that opened the model while the first one was asked for an estimate."""
        self._progress = Progress(shards, stream, time.monotonic)
        self._result = Result()
        self._has_begun = False
        """Whether anything was given out to be written; an estimate must not touch what another call writes."""

    def estimate(self, *, alone: bool = False) -> str:
        """Start all workers, and return what all files are expected to take, by the largest one's first rows.

        The first worker answers them; `alone`, no other is started. Raises what keeps it from opening the model, and
        for a file that cannot be read what is wrong with it: if the options are, or if it is all that is wanted.
        """
        for number in range(1, 1 if alone else self._num_workers):
            self._workers.start(number)
        self._open(0)
        sampled = max(self._shards, key=lambda shard: shard.size)
        self._workers.send(0, {"do": "sample", "work": to_json(Work(sampled))})
        reply = self._final_reply(0)
        if "failed" in reply:
            error = error_of(reply)
            if alone or isinstance(error, UsageError | DiskError):
                raise error
            # it is reported like any other file, and the others are written
            return msg("no estimate: {error}", error)
        if "died" in reply:
            # what dies on its first rows is tried, and given up, like any other file
            self._open(0)
            return msg("no estimate: the worker {reason} on {source}", reply["died"], sampled.source)
        return estimate_line(reply["sampled"], sampled, self._shards, self._num_workers, self._threads)

    def run(self) -> Result:
        """Work on all shards, after `estimate`.

        Raises `DiskError` where the disk is full, and what keeps a model from being opened.
        """
        self._has_begun = True
        self._give(0)
        for number, reply in self._early:
            self._take(number, reply)
        while self._busy or self._waiting:
            for number, reply in self._workers.receive(_WAIT):
                self._take(number, reply)
        self._progress.close()
        return self._result

    def say(self, line: str) -> None:
        self._progress.say(line)

    def close(self) -> None:
        """End all workers, and remove what they have half-written; a signal that comes meanwhile is answered then."""
        with signals_held():
            self._workers.close()
            if self._has_begun:
                with suppress(DikkatError):
                    remove_half_written(self._shards)
            self._progress.close()

    def _open(self, number: int) -> None:
        for attempt in range(1, TRIES + 1):
            self._workers.start(number)
            reply = self._final_reply(number)
            if "ready" in reply:
                self.say(reply["ready"])
                return
            if "failed" in reply:
                raise error_of(reply)
            if attempt == TRIES:
                raise _lost(msg("no worker could open the model: the last one {reason}", reply["died"]), reply)

    def _final_reply(self, number: int) -> Reply:
        answer: Reply | None = None
        while answer is None:
            for sender, reply in self._workers.receive(_WAIT):
                if sender != number:
                    self._early.append((sender, reply))
                elif "note" in reply:
                    self.say(reply["note"])
                elif "progress" not in reply:
                    answer = reply
        return answer

    def _take(self, number: int, reply: Reply) -> None:
        work = self._busy.get(number)
        if "progress" in reply and work is not None:
            self._progress.at(number, work, reply["progress"], reply["fraction"])
        elif "note" in reply and not number:
            self.say(reply["note"])
        elif "ready" in reply:
            self._give(number)
        elif "failed" in reply and work is None:
            # the model could be opened by the first worker, but not by this one
            raise error_of(reply)
        elif "failed" in reply and work is not None:
            self._fail(number, work, error_of(reply))
        elif "answered" in reply and work is not None:
            self._collect(work, reply["answered"])
            self._finish(number, work, reply["answered"]["rows"], files=0)
        elif "done" in reply and work is not None:
            self._result.records.append(reply["done"])
            _remove_answers(work)
            self._answered.pop(work.shard.source, None)
            self._finish(number, work, 0 if work.joined is not None else reply["done"]["rows"])
        elif "died" in reply:
            self._on_worker_death(number, reply)

    def _give(self, number: int) -> None:
        if self._waiting:
            work = self._waiting.popleft()
            self._busy[number] = work
            self._workers.send(number, {"do": "write", "work": to_json(work)})

    def _collect(self, work: Work, answered: dict[str, Any]) -> None:
        """Keep the result of a part; the last one is followed by the joining of all, before any other work."""
        if self._is_given_up(work):
            _remove_answers(work)
            return
        results = self._answered.setdefault(work.shard.source, [])
        results.append(answered)
        if len(results) == work.parts:
            self._waiting.appendleft(Work(work.shard, 0, work.parts, joined_parts(results)))

    def _finish(self, number: int, work: Work, rows: int, *, files: int = 1) -> None:
        del self._busy[number]
        self._progress.done(number, work.size, rows, files=files)
        self._give(number)

    def _fail(self, number: int, work: Work, error: DikkatError) -> None:
        if isinstance(error, DiskError):
            raise error
        if self._is_given_up(work):
            _remove_answers(work)
            self._finish(number, work, 0, files=0)
            return
        self._result.bad[work.shard.source] = error
        self._give_up(number, work)
        self._finish(number, work, 0)

    def _is_given_up(self, work: Work) -> bool:
        return work.shard.source in self._result.bad or work.shard.source in self._result.poison

    def _give_up(self, number: int, work: Work) -> None:
        """Leave the other parts of a file undone, and remove what some have answered."""
        source = work.shard.source
        dropped = sum(other.size for other in self._waiting if other.shard.source == source)
        self._waiting = deque(other for other in self._waiting if other.shard.source != source)
        self._answered.pop(source, None)
        _remove_answers(work)
        self._progress.done(number, dropped, 0, files=0)

    def _on_worker_death(self, number: int, reply: Reply) -> None:
        reason: str = reply["died"]
        work = self._busy.pop(number, None)
        self._progress.lost(number)
        tried = None if work is None else (work.shard.source, work.part, work.joined is None)
        self._tries[tried] = self._tries.get(tried, 0) + 1
        if work is None:
            if self._tries[tried] >= TRIES * self._num_workers:
                raise _lost(msg("workers die before they get a file: the last one {reason}", reason), reply)
        elif self._is_given_up(work):
            _remove_answers(work)
        else:
            source = work.shard.source
            remove_half_written([work.shard], keep_answers=True)
            if self._tries[tried] < TRIES:
                line = msg("{source}: the worker {reason}; the file is started again", source, reason)
                if work.is_part:
                    line = msg("{source}: the worker {reason}; its part of the file is started again", source, reason)
                self.say(line)
                # after the others, since what died of it may have passed by then
                self._waiting.append(work)
            else:
                self.say(msg("{source}: the worker {reason}; given up after {tries} tries", source, reason, TRIES))
                self._result.poison[source] = reason
                self._give_up(number, work)
                self._progress.done(number, work.size, 0)
        if self._waiting:
            self._workers.start(number)


def _lost(message: str, reply: Reply) -> DikkatError:
    """Return the error where workers die whatever they are given."""
    return OutOfMemoryError(message) if reply.get("memory") else InternalError(message)


_KINDS: dict[int, Callable[[str], DikkatError]] = {kind.exit_code: kind for kind in DikkatError.__subclasses__()}


def error_of(reply: Reply) -> DikkatError:
    return _KINDS[reply["exit_code"]](reply["failed"])
