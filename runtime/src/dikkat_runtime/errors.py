"""Errors that a user can cause or meet: one line each, with the exit code of the process.

The line says what is wrong, where (file:line) and what to do. Anything that is not a `DikkatError` and reaches
the command line is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class DikkatError(Exception):
    """Base of every error that is reported to the user as one line."""

    exit_code: ClassVar[int] = 1


class UsageError(DikkatError):
    """The command or the configuration asks for something that does not exist or does not fit."""

    exit_code = 2


class DataError(DikkatError):
    """Bad data or a damaged file (EX_DATAERR)."""

    exit_code = 65


class MissingInputError(DikkatError):
    """An input that is not there or cannot be read (EX_NOINPUT)."""

    exit_code = 66


class InternalError(DikkatError):
    """Something that must not happen: a bug of ours (EX_SOFTWARE)."""

    exit_code = 70


class OutOfMemoryError(DikkatError):
    """Memory does not suffice for what was asked (EX_OSERR)."""

    exit_code = 71


class CannotCreateError(DikkatError):
    """An output that must not or cannot be created (EX_CANTCREAT)."""

    exit_code = 73


class DiskError(DikkatError):
    """Writing failed: the disk is full or broken (EX_IOERR)."""

    exit_code = 74


class StoppedError(DikkatError):
    """Work stopped before its end; what was done is saved and can be resumed (EX_TEMPFAIL)."""

    exit_code = 75


class DivergedError(DikkatError):
    """Training left the finite numbers and could not be brought back (EX_PROTOCOL)."""

    exit_code = 76


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name closest to `name`, as a hint for a message: `; did you mean "x"?`, or an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{close[0]}"?' if close else ""


def plural(count: int, noun: str) -> str:
    """A count and its noun: 1 pair, 1,000 pairs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class AbsentError(UsageError):
    """There are no native kernels."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"no native kernels: {reason}; {advice}")
        self.reason = reason
        self.advice = advice
        """What the user can do about it."""
