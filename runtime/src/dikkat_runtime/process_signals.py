"""Hold signals back while something short is done that must not be left half done."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)
"""Ctrl-C, the polite `kill`, a closed terminal, and a used-up limit of processor time."""


@contextmanager
def signals_held() -> Iterator[None]:
    """Answer signals that come during the body after it, by the handlers that stand before it.

    Those that Python does not handle stay as they are. In another thread than the main one, where no signal is
    answered, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came, is_over = list[int](), threading.Event()
    handlers = {number: signal.getsignal(number) for number in NUMBERS if callable(signal.getsignal(number))}

    def hold(number: int, frame: FrameType | None) -> None:
        handler = handlers[number]
        if not is_over.is_set():
            came.append(number)
        elif callable(handler):
            # while the handlers are put back, one of which may end that by what it raises
            handler(number, frame)

    try:
        for number in handlers:
            signal.signal(number, hold)
        yield
    finally:
        is_over.set()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int | None = None) -> None:
    """Let Linux kill this process when its parent dies, which may not have had the time to end it; else do nothing.

    It is killed at once where that was the process `parent`, and is gone already.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
