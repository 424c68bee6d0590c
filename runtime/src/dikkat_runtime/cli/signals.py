"""Turn Ctrl-C, SIGTERM, SIGHUP and SIGXCPU into a request to stop that long work honours when it is safe."""

import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from dikkat_runtime.errors import msg
from dikkat_runtime.process_signals import NUMBERS

SAME_WITHIN = 1.0
"""Seconds in which a signal after the one that interrupted is the same wish, and would only cut the last words off."""


class Interrupted(BaseException):
    """Signal that the work ends immediately; a KeyboardInterrupt would not tell the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class StopSignal:
    """Return whether a signal has come, when called.

    Until it is asked for the first time, and at a second signal, the signal interrupts at once. A signal that is
    ignored, as SIGHUP is under nohup, stays ignored. One that has come already, to the object before this one, counts:
    what was raised then was lost, or this would not be made.
    """

    def __init__(self) -> None:
        self.number = self._number_before()
        self.quiet_signals: frozenset[int] = frozenset()
        """Signals that are obeyed without a word."""
        self.same_within = 0.0
        """Seconds in which a further signal is the same one: a launcher passes on what the terminal sent to all."""
        self._received = 0.0
        self._interrupted = -math.inf
        self._asked = False
        for number in NUMBERS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._receive)

    @staticmethod
    def _number_before() -> int | None:
        owners = [getattr(signal.getsignal(number), "__self__", None) for number in NUMBERS]
        return next((owner.number for owner in owners if isinstance(owner, StopSignal)), None)

    def __call__(self) -> bool:
        self._asked = True
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """Return 128 + the signal's number, as shells report it."""
        return 128 + (self.number or signal.SIGINT)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        is_second = self.number is not None
        if is_second and time.monotonic() - self._received < self.same_within:
            return
        self._received = time.monotonic()
        self.number = self.number or number
        if is_second or not self._asked:
            if time.monotonic() - self._interrupted < SAME_WITHIN:
                return
            self._interrupted = time.monotonic()
            # Python drops what is raised while it collects garbage; then the next question is answered with yes
            raise Interrupted(number)
        if number not in self.quiet_signals:
            _say(msg("stopping after this update; signal once more to stop at once, without saving"))


def let_signals_kill() -> None:
    """Let signals end the process immediately, when nothing is left that they could spoil."""
    for number in NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Start processes in the body that get no Ctrl-C until they call `unblock_sigint`; this process answers it as ever.

    A process inherits the mask of the thread that starts it, and Python writes a traceback for a Ctrl-C while it loads
    its modules. Here another thread receives the signal, and the main thread answers it within its next instructions.
    """
    is_over = threading.Event()
    # it begins with the mask of before
    receiver = threading.Thread(target=is_over.wait, daemon=True)
    receiver.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        is_over.set()


def unblock_sigint() -> None:
    """Answer Ctrl-C from now on, also one that came before, in a process that was started with `sigint_blocked`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _say(text: str) -> None:
    # not through sys.stderr, which may be in the middle of a line when the signal comes
    start = "\r\x1b[2K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{start}{text}\n".encode())
