"""Describe any error that ended a command as one that a user is told in one line, with its exit code."""

from __future__ import annotations

import errno
import json
import tomllib
import traceback
from pathlib import Path

from dikkat_runtime.errors import (
    CannotCreateError,
    DataError,
    DikkatError,
    DiskError,
    InternalError,
    MissingInputError,
    OutOfMemoryError,
    UsageError,
    came_of_memory,
    reason_of,
)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
_NOT_CREATED = frozenset({errno.EROFS, errno.EEXIST, errno.ENOTEMPTY})
_PARSERS = tuple(str(Path(module.__path__[0])) for module in (json, tomllib))


def as_known(error: BaseException, smaller: str, again: str) -> DikkatError:
    """Return `error` itself if it is known, else what it means to a user.

    `smaller` is the advice where memory is too small, `again` the command that shows the traceback of a bug.
    """
    if came_of_memory(error):
        return OutOfMemoryError("out of memory; {smaller}").fill(smaller)
    if isinstance(error, DikkatError):
        return error
    if isinstance(error, OSError):
        return _of_a_file(error)
    if isinstance(error, RecursionError | ValueError) and _was_raised_by_a_parser(error):
        return DataError("a file is nested too deeply, or holds a number that is too long, to be read ({error})").fill(
            error
        )
    if isinstance(error, OverflowError):
        return UsageError("a number that was given is larger than this can be computed with ({error})").fill(error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return DataError("{object} holds characters that are not valid Unicode; rename or correct it").fill(
            error.object
        )
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return InternalError("internal error ({what}); this is a bug of dikkat; for the traceback: {again}").fill(
        what, again
    )


def _of_a_file(error: OSError) -> DikkatError:
    where = f"{error.filename}: " if error.filename is not None else ""
    reason = reason_of(error)
    if error.errno in _FULL:
        return DiskError("{where}reading or writing failed: {reason}; make room, or look after the disk").fill(
            where, reason
        )
    if error.errno in _NOT_CREATED:
        return CannotCreateError("{where}cannot be written: {reason}; choose another path").fill(where, reason)
    return MissingInputError("{where}cannot be used: {reason}").fill(where, reason)


def _was_raised_by_a_parser(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_PARSERS)
