"""Work shared with copies of this process, each with an interpreter and one thread of its own.

A step that PyTorch takes is hundreds of short operators. Two threads inside each of them wait for one another, and for
Python, most of the time; two processes wait for nobody. A copy is made by `fork`, so the model is not: its memory is
the parent's, and only parts of the work and what is made of them go to and fro. The parent works beside its copies.

Copies wait for more work, since a fresh one is slow: it has to compile each shape of product, and for a while whatever
it or its parent writes to is memory of both, which must be copied first.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from dikkat_runtime.errors import DikkatError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_ROOM = 1 << 20
"""Bytes of a pipe, the most that everybody may ask for."""

Part = TypeVar("Part")
Made = TypeVar("Made")


def can_be_copied() -> bool:
    """Whether this process may fork: Linux, no thread of Python's that could hold a lock, and no copy itself."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return sys.platform == "linux" and alone and not torch.cuda.is_initialized() and _has_semaphores()


def _has_semaphores() -> bool:
    """Not in every container: they are files in /dev/shm."""
    try:
        multiprocessing.get_context("fork").Lock()
    except (ImportError, OSError):
        return False
    return True


class Copies(Generic[Part, Made]):
    """`count` processes that do `work`, this one among them: copies that are made when they are first needed.

    They know of `work` what was so then; parts and what is made of them must be picklable. They end when this is
    closed or forgotten.
    """

    def __init__(self, work: Callable[[Part], Made], count: int) -> None:
        self.count = count
        self._work = work
        self._at_work = threading.Lock()
        self._owner = 0
        self._close = ExitStack()
        self._pipes: list[tuple[Connection, Connection]] = []
        self._turn: Any = None

    def map(self, parts: Sequence[Part]) -> Iterator[Made]:
        """`work` of each, in their order, by processes that take the parts in turn as they come free.

        By this one alone where it cannot be copied, and while its copies are at work for somebody else. Raises what
        `work` raises, and `DikkatError` when a copy dies without a word; no part is begun any more after that, nor
        once the caller stops asking.
        """
        if not self._at_work.acquire(blocking=False):
            yield from map(self._work, parts)
            return
        is_done = False
        try:
            pipes = self._for(len(parts))
            try:
                for tasks, _ in pipes:
                    tasks.send(parts)
            except BrokenPipeError:
                raise _killed() from None
            receivers = [found for _, found in pipes]
            yield from self._in_order(parts, receivers)
            while receivers:
                for receiver in wait(receivers):
                    _receive(receiver, receivers, {})
            is_done = True
        finally:
            if not is_done:
                self.close()
            self._at_work.release()

    def close(self) -> None:
        """End the copies, whatever they are at."""
        if self._owner == os.getpid():
            self._close.close()
        self._close, self._pipes, self._owner = ExitStack(), [], 0

    def _for(self, parts: int) -> list[tuple[Connection, Connection]]:
        """Pipes to and from copies for so many parts, which have nothing to do."""
        if self._owner != os.getpid() or any(found.poll() for _, found in self._pipes):
            # a copy of this process has no copies yet; and of one that is at work for nobody, the only news is its end
            self.close()
        needed = min(self.count, parts) - 1
        if len(self._pipes) < needed and can_be_copied():
            context = multiprocessing.get_context("fork")
            if not self._pipes:
                self._owner, self._turn = os.getpid(), context.Value("i", 0)
                weakref.finalize(self, _end, os.getpid(), self._close)
            while len(self._pipes) < needed:
                self._start(context)
        if self._pipes:
            self._turn.value = 0
        return self._pipes[:needed]

    def _start(self, context: Any) -> None:
        """One copy more."""
        tasks, to_copy = context.Pipe(duplex=False)
        from_copy, found = context.Pipe(duplex=False)
        for own in (to_copy, from_copy):
            self._close.callback(own.close)
        _widen(to_copy)
        _widen(found)
        others = [*itertools.chain(*self._pipes), to_copy, from_copy]
        copy = context.Process(target=_serve, args=(self._work, self._turn, tasks, found, others), daemon=True)
        with _quietly(), _undisturbed():
            copy.start()
            self._close.callback(copy.join)
            self._close.callback(copy.terminate)
        tasks.close()
        found.close()
        self._pipes.append((to_copy, from_copy))

    def _in_order(self, parts: Sequence[Part], receivers: list[Connection]) -> Iterator[Made]:
        """What is made of each part, here or by the copies, as soon as it is its turn."""
        if not receivers:
            yield from map(self._work, parts)
            return
        made: dict[int, Made] = {}
        for place in range(len(parts)):
            while place not in made:
                if (own := _next(self._turn)) < len(parts):
                    with _one_thread():
                        made[own] = self._work(parts[own])
                elif not receivers:
                    raise _killed()
                for receiver in wait(receivers, timeout=0 if own < len(parts) else None):
                    _receive(receiver, receivers, made)
            yield made.pop(place)


def _end(owner: int, close: ExitStack) -> None:
    if owner == os.getpid():
        close.close()


def _receive(receiver: Any, receivers: list[Connection], made: dict[int, Any]) -> None:
    """What a copy has made, or that it has nothing left to do."""
    try:
        news = receiver.recv()
    except (EOFError, OSError):
        # the second where it was in the midst of telling
        raise _killed() from None
    if news is None:
        receivers.remove(receiver)
        return
    place, found, error = news
    if error is not None:
        raise error
    made[place] = found


def _widen(sender: Connection) -> None:
    """So that a copy need not wait with what it made until the parent has made something and looks."""
    import fcntl  # which not every platform has

    # a user who has very many pipes keeps narrow ones
    with suppress(OSError):
        fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, _ROOM)


def _killed() -> DikkatError:
    return DikkatError("a process that was decoding was killed; try a smaller batch size")


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _serve(
    work: Callable[[Part], Made], turn: Any, tasks: Connection, found: Connection, others: Sequence[Connection]
) -> None:
    """What a copy does. Ctrl-C is for the parent, which ends its copies; without a parent none has anything to read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for other in others:
        other.close()
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError):
        while True:
            parts = tasks.recv()
            while (place := _next(turn)) < len(parts):
                try:
                    made = work(parts[place])
                except Exception as error:
                    found.send((place, None, error))
                    return
                found.send((place, made, None))
            found.send(None)


def _next(turn: Any) -> int:
    with turn.get_lock():
        place: int = turn.value
        turn.value += 1
    return place


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A signal waits until the copy is made and will be ended: raised in between, it would leave one behind.

    The mask is for the copy, which inherits it and has one thread. Here a thread of the libraries below may take the
    signal, and Python would call its handler in the midst of this; so it is only noted.
    """
    came: list[signal.Signals] = []
    before = {number: signal.signal(number, lambda each, _: came.append(signal.Signals(each))) for number in _SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def _quietly() -> Iterator[None]:
    """The threads of the libraries below wait for work while the process is copied, and hold nothing."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    # in a copy the tokenizer has no threads either; it reads this when it is asked
    os.environ[name] = "false"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
