"""Messages about the native kernels: how far their compiling is, and why they are not used.

Nobody gets them unless somebody listens: the command line does, so that a program that imports dikkat stays silent.
"""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Gets the messages, as complete sentences without a full stop."""

    def compiling(self, done: int, total: int) -> None:
        """`done` of `total` steps are over; all of them when the library is complete."""

    def stopped_compiling(self) -> None:
        """No more steps follow, whether they are all done or not."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


_listeners: list[Listener] = []


def listen(listener: Listener | None) -> None:
    """From now on `listener`, and no other, gets the messages."""
    _listeners[:] = [] if listener is None else [listener]


def compiling(done: int, total: int) -> None:
    """See `Listener.compiling`."""
    for listener in _listeners:
        listener.compiling(done, total)


def stopped_compiling() -> None:
    """See `Listener.stopped_compiling`."""
    for listener in _listeners:
        listener.stopped_compiling()


def note(text: str) -> None:
    """See `Listener.note`."""
    for listener in _listeners:
        listener.note(text)
