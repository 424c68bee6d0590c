"""Errors that a user can mend: one line each, with the exit code of the command."""

from __future__ import annotations


class DikkatRuntimeError(Exception):
    """What a user did or has cannot work; the message says what, where and what to do."""

    exit_code = 1


class UsageError(DikkatRuntimeError):
    """An option or its value is wrong (EX_USAGE of this house)."""

    exit_code = 2


class DataError(DikkatRuntimeError):
    """A file is damaged or holds something else (EX_DATAERR)."""

    exit_code = 65


class MissingInputError(DikkatRuntimeError):
    """An input is not there (EX_NOINPUT)."""

    exit_code = 66


class DiskError(DikkatRuntimeError):
    """Writing failed: the disk is full or broken (EX_IOERR)."""

    exit_code = 74
