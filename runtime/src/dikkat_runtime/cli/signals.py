"""The signals that end a command, and the exit code of each; nothing here takes long to load."""

from __future__ import annotations

import math
import signal
from time import monotonic
from types import FrameType

NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU") if hasattr(signal, name))
"""Ctrl-C, the polite `kill`, a closed terminal, and a used-up limit of processor time."""

SAME_WITHIN = 1.0
"""Seconds in which a further signal is the same wish: a terminal that closes sends several, and a hasty user too."""


class Terminated(KeyboardInterrupt):
    """Signal that the work ends by a signal.

    It is of a class of its own after Ctrl-C too: for a KeyboardInterrupt Python may kill itself at its end.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def code_of(interrupt: KeyboardInterrupt) -> int:
    """Return 128 + the number of the signal, as shells report it."""
    return 128 + (interrupt.number if isinstance(interrupt, Terminated) else signal.SIGINT)


class Terminate:
    """Answer a signal by `Terminated`, and those that follow at once by nothing: they would end the last words."""

    def __init__(self) -> None:
        self._answered = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise `Terminated`, also again later: Python drops what is raised while it collects garbage."""
        if monotonic() - self._answered >= SAME_WITHIN:
            self._answered = monotonic()
            raise Terminated(number)
