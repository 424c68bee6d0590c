"""Ctrl-C and SIGTERM as a wish to stop that long work can honour when it is safe."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(BaseException):
    """A signal that ends the work at once; not a KeyboardInterrupt, whose signal number typer would forget."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class StopSignal:
    """Callable that tells whether a signal has come.

    Until it is asked for the first time, and at a second signal, the signal interrupts at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    def __call__(self) -> bool:
        self._asked = True
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + (self.number or signal.SIGINT)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None or not self._asked:
            raise Interrupted(number)
        self.number = number
