"""Describe the error that ended a command in one line, with the exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from dikkat.cli.signals import Interrupted
from dikkat_runtime.cli.failures import as_known
from dikkat_runtime.errors import DikkatError, SettingError, UsageError
from dikkat_runtime.hints import command
from dikkat_runtime.messages import msg

SMALLER = {
    "train": msg("set a smaller training.tokens_per_batch, model or data.max_length"),
    "quickstart": msg("close other programs"),
    "translate": msg("give a smaller --batch-size or --beam"),
    "evaluate": msg("give a smaller --beam, or shorter lines"),
    "classify": msg("give a smaller --batch-size"),
    "generate": msg("give a smaller --context or --samples"),
    "compare": msg("give smaller --lengths or --widths"),
    "draw": msg("draw a smaller model or table"),
    "import": msg("import a smaller checkpoint"),
    "data": msg("give a smaller --batch-size"),
    "heads": msg("give fewer --sentences, or shorter ones"),
}
"""Advice where memory is too small, by command."""

_WHOLE = re.compile(r"[-+]?[0-9]+")
_EXTRA = "Got unexpected extra argument(s) ("
_MAX_NUMBER_LENGTH = 18
"""Digits of any number of 64 bits."""
_MAX_COMMAND_LENGTH = 300
"""Characters of a command that is worth repeating in a message."""


def explain_failure(error: BaseException, arguments: Sequence[str]) -> tuple[str, int]:
    """Return the line and the exit code for `error`, which ended the command of these `arguments`."""
    if isinstance(error, Interrupted):
        return msg("interrupted"), error.exit_code
    of_an_argument = None if isinstance(error, DikkatError) else _of_an_argument(error, arguments)
    known = of_an_argument or _as_known(error, arguments)
    return known.about_option if isinstance(known, SettingError) else str(known), known.exit_code


def _of_an_argument(error: BaseException, arguments: Sequence[str]) -> DikkatError | None:
    """A number that no computer word holds, or a file that was read as an option, in the words of the command line."""
    if type(error).__name__ == "NoSuchOption":
        file = next((word for word in arguments if word.startswith("-") and Path(word).is_file()), None)
        return UsageError("{file}: a file whose name begins with a dash; call it ./{file}").fill(file) if file else None
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for option, value in pairwise(words):
        if option.startswith("-") and _WHOLE.fullmatch(value) and len(value.lstrip("+-0")) > _MAX_NUMBER_LENGTH:
            shown = value if len(value) <= 2 * _MAX_NUMBER_LENGTH else f"{value[:_MAX_NUMBER_LENGTH]}…"
            return UsageError("{option} {shown}: is larger than this can be computed with; give a smaller number").fill(
                option, shown
            )
    return None


def _as_known(error: BaseException, arguments: Sequence[str]) -> DikkatError:
    if hasattr(error, "format_message"):
        return UsageError(_usage(error))
    name = next((word for word in arguments if not word.startswith("-")), "")
    return as_known(error, SMALLER.get(name, msg("give fewer or shorter lines")), _again(arguments))


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "dikkat"
    message = _said_by_typer(error)
    if message.endswith(("?", "!")):
        return msg("{text} Try `{name} --help`.").fill(message, name)
    return msg("{text}. Try `{name} --help`.").fill(message, name)


def _said_by_typer(error: Any) -> str:
    """Return what typer says of a command line as a message, for which it keeps the values apart."""
    kind, parameter, text = (
        type(error).__name__,
        getattr(error, "param", None),
        " ".join(error.format_message().split()),
    )
    hint = "" if parameter is None else parameter.get_error_hint()
    if kind == "MissingParameter":
        is_argument = getattr(parameter, "param_type_name", "") == "argument"
        return msg("Missing argument {name}" if is_argument else "Missing option {name}").fill(hint)
    if kind == "BadParameter":
        return msg("Invalid value for {name}: {complaint}").fill(hint, _complaint(error))
    if kind == "NoSuchOption" and error.possibilities:
        names = ", ".join(sorted(error.possibilities))
        return msg("No such option: {name} (Possible options: {names})").fill(error.option_name, names)
    if kind == "NoSuchOption":
        return msg("No such option: {name}").fill(error.option_name)
    if kind == "BadOptionUsage" and text.endswith("requires an argument."):
        return msg("Option '{name}' requires an argument").fill(error.option_name)
    if kind == "BadOptionUsage" and text.endswith("does not take a value."):
        return msg("Option '{name}' does not take a value").fill(error.option_name)
    if text.startswith(_EXTRA):
        return msg("Got unexpected extra argument(s) ({words})").fill(text.removeprefix(_EXTRA).removesuffix(")"))
    # typer ends some messages with a full stop
    return text.removesuffix(".")


def _complaint(error: Any) -> str:
    cause = error.__cause__
    if type(cause).__name__ != "ValidationError":
        return str(error.message).removesuffix(".")
    from dikkat.config.settings import complaint

    said = complaint(cause.errors()[0], capital=True)
    value, is_choice, choices = said.partition(" is not one of ")
    if is_choice:
        return msg("{value} is not one of {choices}").fill(value, choices.removesuffix("."))
    return said


def _again(arguments: Sequence[str]) -> str:
    again = command("--debug", *arguments)
    return again if len(again) <= _MAX_COMMAND_LENGTH else f"{command('--debug')} …"
