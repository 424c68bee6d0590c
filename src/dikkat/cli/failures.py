"""Describe the error that ended a command in one line, with the exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from dikkat.cli.signals import Interrupted
from dikkat_runtime.cli.failures import as_known
from dikkat_runtime.errors import DikkatError, SettingError, UsageError
from dikkat_runtime.hints import command

SMALLER = {
    "train": "set a smaller training.tokens_per_batch, model or data.max_length",
    "quickstart": "close other programs",
    "translate": "give a smaller --batch-size or --beam",
    "evaluate": "give a smaller --beam, or shorter lines",
    "classify": "give a smaller --batch-size",
    "generate": "give a smaller --context or --samples",
    "compare": "give smaller --lengths or --widths",
    "draw": "draw a smaller model or table",
    "import": "import a smaller checkpoint",
    "data": "give a smaller --batch-size",
    "heads": "give fewer --sentences, or shorter ones",
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
    known = of_an_argument or _as_known(error, arguments)
    return known.about_option if isinstance(known, SettingError) else str(known), known.exit_code


def _of_an_argument(error: BaseException, arguments: Sequence[str]) -> DikkatError | None:
    """A number that no computer word holds, or a file that was read as an option, in the words of the command line."""
    if type(error).__name__ == "NoSuchOption":
        file = next((word for word in arguments if word.startswith("-") and Path(word).is_file()), None)
        return UsageError(f"{file}: a file whose name begins with a dash; call it ./{file}") if file else None
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for option, value in pairwise(words):
        if option.startswith("-") and _WHOLE.fullmatch(value) and len(value.lstrip("+-0")) > _MAX_NUMBER_LENGTH:
            shown = value if len(value) <= 2 * _MAX_NUMBER_LENGTH else f"{value[:_MAX_NUMBER_LENGTH]}…"
            return UsageError(f"{option} {shown}: is larger than this can be computed with; give a smaller number")
    return None


def _as_known(error: BaseException, arguments: Sequence[str]) -> DikkatError:
    if hasattr(error, "format_message"):
        return UsageError(_usage(error))
    name = next((word for word in arguments if not word.startswith("-")), "")
    return as_known(error, SMALLER.get(name, "give fewer or shorter lines"), _again(arguments))


def _usage(error: BaseException) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "dikkat"
    # typer puts the kind of a mistake before what it says
    message = " ".join(message.split()).replace(": Value error, ", ": ")
    if message.endswith(("?", "!")):
        return f"{message} Try `{name} --help`."
    # typer ends some messages with a full stop, and pydantic none
    return f"{message.removesuffix('.')}. Try `{name} --help`."


def _again(arguments: Sequence[str]) -> str:
    again = command("--debug", *arguments)
    return again if len(again) <= _MAX_COMMAND_LENGTH else f"{command('--debug')} …"
