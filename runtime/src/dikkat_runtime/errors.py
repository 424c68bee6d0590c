"""Errors that a user can cause or meet: one line each, with the exit code of the process.

The line names what is wrong, where (file:line) and what to do. Anything that is not a `DikkatError` and reaches
the command line is a bug of ours.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import ClassVar, Self

from dikkat_runtime.messages import Message, msg

_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "size calculation overflowed",
    "bad allocation",
    "std::bad_alloc",
    # of a module that is loaded where it finds no place
    "failed to map segment",
)


class DikkatError(Exception):
    """The base of every error that is reported to the user as one line."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        """Take a message, or the English template of one, whose values follow by `fill`."""
        super().__init__(msg(message))

    def fill(self, *values: object) -> Self:
        """Fill in the template of the message, in the order in which it names the values first."""
        self.args = (self.args[0].fill(*values),)
        return self


class UsageError(DikkatError):
    """The command or the configuration asks for something that does not exist or does not fit."""

    exit_code = 2


class SettingError(UsageError):
    """A setting of a call is out of its limits; a command line calls it by the option that sets it."""

    def __init__(self, message: str, name: str) -> None:
        """`message` has the `name` of the setting as its value `name`."""
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[type[SettingError], tuple[str, str]]:
        """Tell pickle both arguments, since an error that cannot be read again hangs a pool of processes."""
        return type(self), (str(self), self.name)

    @property
    def about_option(self) -> str:
        """Return the message with the option of the command line in the place of the setting."""
        option = "beam" if self.name == "beam_size" else self.name.replace("_", "-")
        message: Message = self.args[0]
        return Message(message.template, {**message.values, "name": f"--{option}"})


class DataError(DikkatError):
    """The data are bad or a file is damaged (EX_DATAERR)."""

    exit_code = 65


class MissingInputError(DikkatError):
    """An input does not exist or cannot be read (EX_NOINPUT)."""

    exit_code = 66


class InternalError(DikkatError):
    """A bug of ours: something happened that must not (EX_SOFTWARE)."""

    exit_code = 70


class OutOfMemoryError(DikkatError):
    """The memory does not suffice for what was asked (EX_OSERR)."""

    exit_code = 71


class CannotCreateError(DikkatError):
    """An output must not or cannot be created (EX_CANTCREAT)."""

    exit_code = 73


class DiskError(DikkatError):
    """Writing failed: the disk is full or broken (EX_IOERR)."""

    exit_code = 74


class StoppedError(DikkatError):
    """Work stopped before its end; finished work is saved and can be resumed (EX_TEMPFAIL)."""

    exit_code = 75


class DivergedError(DikkatError):
    """Training diverged to numbers that are not finite and could not recover (EX_PROTOCOL)."""

    exit_code = 76


def came_of_memory(error: BaseException) -> bool:
    """Tell whether memory was too small, also where that was taken for a damaged or unreadable file."""
    cause: BaseException | None = error
    while cause is not None and not _is_of_memory(cause):
        cause = cause.__context__
    return cause is not None


def _is_of_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_mentioned = isinstance(error, RuntimeError | ImportError) and any(word in str(error).lower() for word in _MEMORY)
    return isinstance(error, MemoryError) or is_mentioned


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to `name`: `; did you mean "x"?`, or an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return msg('; did you mean "{name}"?').fill(close[0]) if close else ""


def reason_of(error: OSError) -> Message:
    """Return what the operating system says of a failure."""
    return msg(error.strerror or str(error))


def unreadable(path: object, error: OSError) -> MissingInputError:
    """Return the error of a file that cannot be read."""
    return MissingInputError("{path}: cannot be read: {reason}").fill(path, reason_of(error))


class AbsentError(UsageError):
    """No native kernels run on this computer."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(msg("no native kernels: {reason}; {advice}").fill(reason, advice))
        self.reason = reason
        self.advice = advice
        """What the user can do about it."""
