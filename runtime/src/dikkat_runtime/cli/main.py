"""The entry of the command line: prepare streams and signals, and turn any error into one line and an exit code.

Nothing that takes long to load is imported before the signals are taken care of.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from types import ModuleType

from dikkat_runtime.cli.signals import Interrupted, StopSignal, let_signals_kill
from dikkat_runtime.errors import DiskError, UsageError


def main(begin: Callable[[], None] | None = None) -> None:
    """Run the command line and exit with its exit code; signals interrupt commands that do not watch them.

    `begin` is called when signals are taken care of.
    """
    StopSignal()
    try:
        from dikkat_runtime.cli.streams import prepare_streams
        from dikkat_runtime.notices import hide_library_warnings

        hide_library_warnings()
        _require_utf8()
        if begin is not None:
            begin()
        prepare_streams()
        code = run(sys.argv[1:])
    except Interrupted as interrupt:
        code = _end(interrupt, sys.argv[1:])
    let_signals_kill()
    sys.exit(code)


def _require_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding, which file names would suffer from."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; everything that goes wrong is one line on standard error.

    Of several ranks that end with an error of the user one says so, and those that are started again do nothing.
    """
    from dikkat_runtime.cli.streams import flush_output

    try:
        ranks = _ranks(arguments)
        if ranks is not None and (earlier := ranks.earlier_exit_code()) is not None:
            return int(earlier)
        code = _run(arguments)
        flush_output()
        if ranks is not None:
            ranks.note_exit_code(code)
        return code
    except (Exception, Interrupted) as error:
        return _end(error, arguments)


def _ranks(arguments: Sequence[str]) -> ModuleType | None:
    """Return what knows of the other ranks of a training, if this may be one; else a script may have called this."""
    if "train" not in arguments or "TORCHELASTIC_ERROR_FILE" not in os.environ:
        return None
    from dikkat_runtime.cli.program import toolkits

    return next((toolkit.ranks for toolkit in toolkits() if hasattr(toolkit, "ranks")), None)


def _run(arguments: Sequence[str]) -> int:
    from dikkat_runtime.cli.failures import NativeNotices
    from dikkat_runtime.cli.program import NAME, run_words
    from dikkat_runtime.native.waiting import set_waiting
    from dikkat_runtime.notices import listen

    set_waiting()
    arguments = _in_language(arguments)
    _require_text(arguments)
    listen(NativeNotices(NAME))
    if "_DIKKAT_COMPLETE" in os.environ:  # a shell asks what could stand here
        from dikkat_runtime.cli.completion import candidates

        print(*candidates(os.environ), sep="\n")
        return 0
    first = next((word for word in arguments if word != "--debug"), "")
    if first in ("--show-completion", "--install-completion"):
        from dikkat_runtime.cli.completion import completion

        print(completion(install=first == "--install-completion"))
        return 0
    return run_words(arguments)


def _in_language(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without --language, in which the messages of the process are from now on."""
    from dikkat_runtime.localization import LANGUAGES, language, pop_language_option

    kept = pop_language_option(arguments)
    if language() != LANGUAGES[0]:
        from dikkat_runtime.cli.program import toolkits

        # with each comes its catalog
        toolkits()
    return kept


def _require_text(arguments: Sequence[str]) -> None:
    """Raise `UsageError` for bytes that are not UTF-8, which neither a model nor a run directory can hold."""
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raw = argument.encode("utf-8", "surrogateescape")
            raise UsageError(
                "the argument {argument} is not valid UTF-8; write it, or name the file, in UTF-8", repr(raw)
            )


def _end(error: BaseException, arguments: Sequence[str]) -> int:
    """Write what was done before `error`, tell of it, and return its exit code."""
    try:
        from dikkat_runtime.cli.failures import explain_failure
        from dikkat_runtime.cli.streams import NoReaderError, flush_output
        from dikkat_runtime.localization import one_visible_line

        with suppress(DiskError, NoReaderError):
            flush_output(is_leaving=isinstance(error, Interrupted))
        if isinstance(error, NoReaderError):
            return error.exit_code
        if _wants_traceback(arguments):
            import traceback

            traceback.print_exception(error)
        message, code = explain_failure(error, arguments)
        ranks = _ranks(arguments)
        if ranks is not None:
            ranks.note_exit_code(code)
        if ranks is None or ranks.claim_report(code):
            print("dikkat:", one_visible_line(message), file=sys.stderr, flush=True)
        return code
    except Interrupted as interrupt:
        return interrupt.exit_code


def _wants_traceback(arguments: Sequence[str]) -> bool:
    options = takewhile(lambda argument: argument.startswith("-"), arguments)
    return bool(os.environ.get("DIKKAT_DEBUG")) or "--debug" in options
