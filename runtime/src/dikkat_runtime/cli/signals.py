"""The signals that end a command, and the exit code of each; nothing here takes long to load."""

from __future__ import annotations

import signal
from types import FrameType

NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU") if hasattr(signal, name))
"""Ctrl-C, the polite `kill`, a closed terminal, and a used-up limit of processor time."""


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


def terminate(number: int, frame: FrameType | None) -> None:
    """Answer a signal by `Terminated`."""
    raise Terminated(number)
