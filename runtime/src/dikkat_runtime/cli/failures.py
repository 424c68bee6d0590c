"""Describe the error that ended a command in one line, with the exit code."""

import errno
import re
import traceback
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from dikkat_runtime.cli.progress import WorkProgress, write_message
from dikkat_runtime.cli.signals import Interrupted
from dikkat_runtime.errors import (
    CannotCreateError,
    DataError,
    DikkatError,
    DiskError,
    InternalError,
    MissingInputError,
    OutOfMemoryError,
    SettingError,
    UsageError,
    came_of_memory,
    msg,
    reason_of,
)
from dikkat_runtime.hints import command
from dikkat_runtime.localization import one_visible_line

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
_NOT_CREATED = frozenset({errno.EROFS, errno.EEXIST, errno.ENOTEMPTY})
_PARSERS = ("json", "tomllib")
SMALLER = {
    "train": msg("set a smaller training.tokens_per_batch, model or data.max_length"),
    "quickstart": msg("close other programs"),
    "translate": msg("give a smaller --batch-size or --beam"),
    "evaluate": msg("give a smaller --beam, or shorter lines"),
    "classify": msg("give a smaller --batch-size"),
    "generate": msg("give a smaller --context or --samples"),
    "draw": msg("draw a smaller model or table"),
    "import": msg("import a smaller checkpoint"),
    "data": msg("give a smaller --batch-size"),
    "heads": msg("give fewer --sentences, or shorter ones"),
}
"""Advice where memory is too small, by command."""

_WHOLE = re.compile(r"[-+]?[0-9]+")
_MAX_NUMBER_LENGTH = 18
"""Digits of any number of 64 bits."""
_MAX_COMMAND_LENGTH = 300
"""Characters of a command that is worth repeating in a message."""


def explain_failure(error: BaseException, arguments: Sequence[str]) -> tuple[str, int]:
    """Return the line and the exit code for `error`, which ended the command of these `arguments`."""
    if isinstance(error, Interrupted):
        return "interrupted", error.exit_code
    of_an_argument = None if isinstance(error, DikkatError) else _of_an_argument(error, arguments)
    name = next((word for word in arguments if not word.startswith("-")), "")
    again = command("--debug", *arguments)
    again = again if len(again) <= _MAX_COMMAND_LENGTH else f"{command('--debug')} …"
    known = of_an_argument or as_known(error, SMALLER.get(name, msg("give fewer or shorter lines")), again)
    return known.about_option if isinstance(known, SettingError) else str(known), known.exit_code


def _of_an_argument(error: BaseException, arguments: Sequence[str]) -> DikkatError | None:
    """A number that no computer word holds, or a file that was read as an option, in the words of the command line."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for option, value in pairwise(words):
        if option.startswith("-") and _WHOLE.fullmatch(value) and len(value.lstrip("+-0")) > _MAX_NUMBER_LENGTH:
            shown = value if len(value) <= 2 * _MAX_NUMBER_LENGTH else f"{value[:_MAX_NUMBER_LENGTH]}…"
            return UsageError("{option} {value}: is too large to compute with; give a smaller number", option, shown)
    return None


def as_known(error: BaseException, smaller: str, again: str) -> DikkatError:
    """Return `error` itself if it is known, else what it means to a user.

    `smaller` is the advice where memory is too small, `again` the command that shows the traceback of a bug.
    """
    if came_of_memory(error):
        return OutOfMemoryError("out of memory; {smaller}", smaller)
    if isinstance(error, DikkatError):
        return error
    if isinstance(error, ImportError) and "dikkat" in str(error):
        return UsageError(
            "the commands of dikkat cannot be loaded ({error}): pip install --upgrade dikkat-runtime dikkat", error
        )
    if isinstance(error, OSError):
        return _of_a_file(error)
    if isinstance(error, RecursionError | ValueError) and _was_raised_by_a_parser(error):
        return DataError("a file is nested too deeply or holds too long a number ({error})", error)
    if isinstance(error, OverflowError):
        return UsageError("a number is too large to compute with ({error})", error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return DataError("{text} holds characters that are not valid Unicode; rename or correct it", error.object)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return InternalError("internal error ({error}); this is a bug of dikkat; for the traceback: {command}", what, again)


def _of_a_file(error: OSError) -> DikkatError:
    where = f"{error.filename}: " if error.filename is not None else ""
    reason = reason_of(error)
    if error.errno in _FULL:
        return DiskError("{where}reading or writing failed: {reason}; make room, or check the disk", where, reason)
    if error.errno in _NOT_CREATED:
        return CannotCreateError("{where}cannot be written: {reason}; choose another path", where, reason)
    return MissingInputError("{where}cannot be used: {reason}", where, reason)


def _was_raised_by_a_parser(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).parent.name in _PARSERS


# Print messages about the native kernels on standard error: one moving line on a terminal, plain lines elsewhere.


class NativeNotices:
    """A listener of `dikkat_runtime.notices` that prints the messages."""

    def __init__(self, program: str) -> None:
        self._program, self._progress = program, WorkProgress()

    def compiling(self, done: int, total: int) -> None:
        if done < total:
            self._progress(done, total, msg("compiling the native kernels for this processor, once"))

    def stopped_compiling(self) -> None:
        self._progress.close()

    def note(self, text: str) -> None:
        self.stopped_compiling()
        write_message(f"{self._program}: {one_visible_line(text)}\n")
