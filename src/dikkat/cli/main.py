"""The entry of the command line: prepare streams and signals, and turn any error into one line and an exit code.

Nothing that takes long to load is imported before the signals are taken care of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

from dikkat.cli.signals import Interrupted, StopSignal, let_signals_kill, unblock_sigint


def main() -> None:
    """Run the command line and exit with its exit code; signals interrupt commands that do not watch them."""
    StopSignal()
    try:
        from dikkat.cli.streams import prepare_streams
        from dikkat.training.distributed.environment import is_started_by_torchrun
        from dikkat_runtime.library_warnings import hide_library_warnings

        if hide_library_warnings():
            _hide_logs()
        _require_utf8()
        if is_started_by_torchrun():
            unblock_sigint()
        prepare_streams()
        code = run(sys.argv[1:])
    except Interrupted as interrupt:
        code = _end(interrupt, sys.argv[1:])
    let_signals_kill()
    sys.exit(code)


def _hide_logs() -> None:
    """Hide what libraries log for programmers, such as matplotlib on a font cache that it builds."""
    import logging

    for library in ("matplotlib", "torch"):
        logging.getLogger(library).setLevel(logging.ERROR)


def _require_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding, which file names would suffer from."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; everything that goes wrong is one line on standard error.

    Of several ranks that end with an error of the user one says so, and those that are started again do nothing.
    """
    from dikkat.cli.rank_endings import earlier_exit_code, note_exit_code
    from dikkat.cli.streams import flush_output

    if _is_training(arguments) and (earlier := earlier_exit_code()) is not None:
        return earlier
    try:
        code = _run(arguments)
        flush_output()
        if _is_training(arguments):
            note_exit_code(code)
        return code
    except (Exception, Interrupted) as error:
        return _end(error, arguments)


def _is_training(arguments: Sequence[str]) -> bool:
    """Tell whether this may be a rank; any other command under torchrun is one that a script of its own calls."""
    return "train" in arguments


def _run(arguments: Sequence[str]) -> int:
    from dikkat.kernels.environment import set_environment

    set_environment()
    arguments = _in_language(arguments)
    _require_text(arguments)
    from dikkat_runtime.cli.native_notices import NativeNotices
    from dikkat_runtime.native.notices import listen

    listen(NativeNotices("dikkat"))
    if _has_translated(arguments):
        return 0
    import typer

    from dikkat.cli.app import called_command, make_app
    from dikkat.cli.localized_help import localize_help

    if "_DIKKAT_COMPLETE" in os.environ:  # a shell asks what could stand here
        make_app()(prog_name="dikkat")
    command = typer.main.get_command(make_app(*called_command(arguments)))
    localize_help(command)
    try:
        with command.make_context("dikkat", list(arguments)) as context:
            result = command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            raise
        # a group without a command: its help, as with --help
        typer.echo(error.format_message())  # type: ignore[attr-defined]
        return 0
    return result if isinstance(result, int) else 0


def _in_language(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without --language, in which the messages of the process are from now on."""
    from pathlib import Path

    from dikkat_runtime.localization import add_catalogs, pop_language_option

    add_catalogs(Path(__file__).parents[1])
    return pop_language_option(arguments)


def _has_translated(arguments: Sequence[str]) -> bool:
    """Translate where that is what a plain command line asks for: typer would take longer to load than a sentence."""
    if arguments[:1] != ["translate"] or "_DIKKAT_COMPLETE" in os.environ:
        return False
    from dikkat.cli.translating import TranslateOptions, translate

    options = TranslateOptions.read(arguments[1:])
    if options is not None:
        translate(options)
    return options is not None


def _require_text(arguments: Sequence[str]) -> None:
    """Raise `UsageError` for bytes that are not UTF-8, which neither a model nor a run directory can hold."""
    from dikkat_runtime.errors import UsageError

    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raw = argument.encode("utf-8", "surrogateescape")
            raise UsageError("the argument {raw} is not valid UTF-8; write it, or name the file, in UTF-8").fill(
                repr(raw)
            )


def _end(error: BaseException, arguments: Sequence[str]) -> int:
    """Write what was done before `error`, tell of it, and return its exit code."""
    try:
        from dikkat.cli.failures import explain_failure
        from dikkat.cli.rank_endings import claim_report, note_exit_code
        from dikkat.cli.streams import NoReaderError, flush_output
        from dikkat_runtime.errors import DiskError
        from dikkat_runtime.text.visible import one_visible_line

        with suppress(DiskError, NoReaderError):
            flush_output(is_leaving=isinstance(error, Interrupted))
        if isinstance(error, NoReaderError):
            return error.exit_code
        if _wants_traceback(arguments):
            import traceback

            traceback.print_exception(error)
        message, code = explain_failure(error, arguments)
        if _is_training(arguments):
            note_exit_code(code)
        if not _is_training(arguments) or claim_report(code):
            print(f"dikkat: {one_visible_line(message)}", file=sys.stderr, flush=True)
        return code
    except Interrupted as interrupt:
        return interrupt.exit_code


def _wants_traceback(arguments: Sequence[str]) -> bool:
    options = takewhile(lambda argument: argument.startswith("-"), arguments)
    return bool(os.environ.get("DIKKAT_DEBUG")) or "--debug" in options
