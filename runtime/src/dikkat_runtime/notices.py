"""Report on the native kernels, why they are not used and how their compilation goes on, and on other long work.

Reports go to one listener, by default to nobody: the command line listens, and a program that imports dikkat stays
silent.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Listener(Protocol):
    """A listener gets the messages, as complete sentences without a full stop."""

    def compiling(self, done: int, total: int) -> None:
        """Report that `done` of `total` steps are over; all of them when the library is complete."""

    def stopped_compiling(self) -> None:
        """Report that no more steps follow, whether they are all done or not."""

    def note(self, text: str) -> None:
        """Report something that the user should know."""


_listeners: list[Listener] = []


def listen(listener: Listener | None) -> None:
    """Send all further messages to `listener` and no other."""
    _listeners[:] = [] if listener is None else [listener]


def compiling(done: int, total: int) -> None:
    for listener in _listeners:
        listener.compiling(done, total)


def stopped_compiling() -> None:
    for listener in _listeners:
        listener.stopped_compiling()


def note(text: str) -> None:
    for listener in _listeners:
        listener.note(text)


COUNTERS: list[Callable[[Sequence[Any], str], Iterator[Any]]] = []
"""What passes the items of long work on and shows how many were taken: the last one, or none in a library."""


def counted(items: Sequence[T], what: str = "") -> Iterator[T]:
    """Pass the items of long work on through the last of `COUNTERS`; `what` names them, by default texts."""
    return COUNTERS[-1](items, what) if COUNTERS else iter(items)


def hide_library_warnings() -> bool:
    """Hide warnings, unless Python was asked for them (`-W`, `PYTHONWARNINGS`) or DIKKAT_DEBUG is set; tell whether."""
    if sys.warnoptions or os.environ.get("DIKKAT_DEBUG"):
        return False
    warnings.simplefilter("ignore")
    return True
