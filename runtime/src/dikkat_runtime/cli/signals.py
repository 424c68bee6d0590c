"""What ends a command beside Ctrl-C, and the exit code of each; nothing here takes long to load."""

from __future__ import annotations

import signal
from types import FrameType

TERMINATING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGXCPU") if hasattr(signal, name))
"""The polite `kill`, a closed terminal, and a used-up limit of processor time."""


class Terminated(KeyboardInterrupt):
    """Signal that the work ends as after Ctrl-C, by another signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def code_of(interrupt: KeyboardInterrupt) -> int:
    """Return 128 + the number of the signal, as shells report it."""
    return 128 + (interrupt.number if isinstance(interrupt, Terminated) else signal.SIGINT)


def terminate(number: int, frame: FrameType | None) -> None:
    """Answer a signal by `Terminated`."""
    raise Terminated(number)
