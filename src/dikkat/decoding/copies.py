"""Work shared with copies of this process, each with an interpreter and one thread of its own.

A step that PyTorch takes is hundreds of short operators. Two threads inside each of them wait for one another, and for
Python, most of the time; two processes wait for nobody. A copy is made by `fork`, so the model is not: its memory is
the parent's, and only what is made comes back. The parent works beside its copies: what it has compiled on the way,
each shape of product, its next copies need not.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import torch

from dikkat.errors import DikkatError

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


def in_copies(work: Callable[[Part], Made], parts: Sequence[Part], count: int) -> Iterator[Made]:
    """`map(work, parts)` by `count` processes, this one among them, which take the parts in turn as they come free.

    What is made must be picklable. Raises what `work` raises, and `DikkatError` when a copy dies without a word; no
    part is begun any more after that, nor once the caller stops asking.
    """
    context = multiprocessing.get_context("fork")
    turn = context.Value("i", 0)
    with ExitStack() as stack:
        receivers: list[Connection] = []
        for _ in range(count - 1):
            receiver, sender = context.Pipe(duplex=False)
            receivers.append(stack.enter_context(receiver))
            _widen(sender)
            copy = context.Process(target=_work_on, args=(work, parts, turn, sender, tuple(receivers)), daemon=True)
            with _quietly(), _undisturbed():
                copy.start()
                stack.callback(copy.join)
                stack.callback(copy.terminate)
            sender.close()
        yield from _in_order(work, parts, turn, receivers)


def _in_order(
    work: Callable[[Part], Made], parts: Sequence[Part], turn: Any, receivers: list[Connection]
) -> Iterator[Made]:
    """What is made of each part, here or by the copies, as soon as it is its turn."""
    made: dict[int, Made] = {}
    for place in range(len(parts)):
        while place not in made:
            if (own := _next(turn)) < len(parts):
                with _one_thread():
                    made[own] = work(parts[own])
            elif not receivers:
                raise _killed()
            for receiver in wait(receivers, timeout=0 if own < len(parts) else None):
                assert isinstance(receiver, Connection)
                _receive(receiver, receivers, made, over=turn.value >= len(parts))
        yield made.pop(place)


def _receive(receiver: Connection, receivers: list[Connection], made: dict[int, Any], over: bool) -> None:
    try:
        place, found, error = receiver.recv()
    except EOFError:
        # a copy that finds nothing left to do ends like one that was killed; then what it was at will be missing
        if not over:
            raise _killed() from None
        receivers.remove(receiver)
        return
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


def _work_on(
    work: Callable[[Part], Made],
    parts: Sequence[Part],
    turn: Any,
    sender: Connection,
    inherited: Sequence[Connection],
) -> None:
    """What a copy does. Ctrl-C is for the parent, which stops its copies; without a parent none has a reader left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for receiver in inherited:
        receiver.close()
    torch.set_num_threads(1)
    while (place := _next(turn)) < len(parts):
        try:
            sender.send((place, work(parts[place]), None))
        except BrokenPipeError:
            return
        except Exception as error:
            sender.send((place, None, error))
            return


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
