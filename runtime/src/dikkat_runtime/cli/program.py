"""The program `dikkat`: the commands that use a model, and those that other distributions add by entry points.

An entry point of the group `dikkat.commands` names a module with COMMANDS (what part command does in a sentence, by
name), `command` (from a name to a function with the options of `options`, or a `Group`), `prepare`, which is called
before one of them runs, GREETING, what the program says to no words at all, and optionally `ranks`, as
`dikkat.cli.rank_endings`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from dikkat_runtime import __version__
from dikkat_runtime.cli.options import HELP, HELP_ROW, Command, help_page, usage_error
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import translated

NAME = "dikkat"
ABOUT = msg("Train a Transformer from your own text on the machine you have, and see exactly what it attends to.")
SHARED = {
    "translate": "Translate FILE or standard input, line by line.",
    "correct": "Keep TARGET as the translation of SOURCE: wherever it comes again, translate and serve give TARGET.",
    "classify": "Classify the lines of FILE or standard input.",
    "generate": "Continue a text, token by token.",
    "translate-files": "Translate, classify or embed many files: each becomes one file, complete or absent.",
    "embed": "Turn each line into a vector.",
    "serve": "Serve runs over HTTP, as clients of other translators expect it.",
}
"""What part command does; it stands in the module of its name, under its name."""
GREETING = """dikkat runs models that were trained from your own text. Four things to do:

  echo TEXT | dikkat translate RUN               translate lines
  dikkat translate RUN guide.docx --out OUT      translate a document, which keeps its form
  dikkat serve RUN                               answer the clients of other translators, and show a page
  pip install dikkat                             train models, and see what they attend to

All commands: dikkat --help"""
_MISSPELT = 0.8
"""Likeness of a name to that of a shared command from which on no command of another distribution is meant."""
OPTIONS = (
    ("--debug", "Show the traceback of an error."),
    ("--version", "Show the versions, and exit."),
    ("--language <str>", "Language of help, messages and reports, after any command too: en or tr; else by LANG."),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
    HELP_ROW,
)


@dataclass(frozen=True, slots=True)
class Group:
    """A command that consists of commands."""

    help: str
    commands: tuple[str, ...]
    function: Callable[[str], Callable[..., Any]]
    """From the name of one of them to its function."""


@cache
def toolkits() -> tuple[ModuleType, ...]:
    """Return the modules that add commands. Raises `ImportError` where one does not fit to this distribution."""
    from importlib.metadata import entry_points

    return tuple(entry.load() for entry in entry_points(group="dikkat.commands"))


def summaries() -> dict[str, str]:
    """Return what every command does, by name."""
    return SHARED | {name: text for toolkit in toolkits() for name, text in toolkit.COMMANDS.items()}


def find_command(name: str) -> Callable[..., Any] | Group:
    """Return a command. Raises `UsageError` where there is none of this name."""
    if name in SHARED:
        spelt = name.replace("-", "_")
        function: Callable[..., Any] = getattr(import_module(f"dikkat_runtime.cli.{spelt}"), spelt)
        return function
    for toolkit in toolkits():
        if name in toolkit.COMMANDS:
            toolkit.prepare()
            target: Callable[..., Any] | Group = toolkit.command(name)
            return target
    from difflib import get_close_matches

    if not toolkits() and not get_close_matches(name, SHARED, cutoff=_MISSPELT):
        raise UsageError(
            "No such command '{name}' without dikkat, which makes and studies models: pip install dikkat", name
        )
    raise _no_such_command(name, summaries(), NAME)


def _no_such_command(name: str, known: Iterable[str], where: str) -> UsageError:
    from difflib import get_close_matches

    if close := get_close_matches(name, known, n=1):
        return usage_error(msg("No such command '{name}'. Did you mean '{suggestion}'?", name, close[0]), where)
    return usage_error(msg("No such command '{name}'", name), where)


def run_words(words: Sequence[str]) -> int:
    """Run the command of these words and return its exit code."""
    if not words:
        print(translated([GREETING, *(toolkit.GREETING for toolkit in toolkits())][-1]))
        return 0
    for index, word in enumerate(words):
        if not word.startswith("-"):
            return _run(f"{NAME} {word}", find_command(word), words[index + 1 :])
        if word in HELP:
            break
        if word == "--version":
            print(_versions())
            return 0
        if word != "--debug":
            raise usage_error(msg("No such option: {name}", word.partition("=")[0]), NAME)
    rows = [(name, translated(text)) for name, text in summaries().items()]
    options = [(name, translated(text)) for name, text in OPTIONS]
    print(help_page(f"{NAME} [OPTIONS] COMMAND [ARGS]...", ABOUT, {"Options": options, "Commands": rows}), end="")
    return 0


def _run(name: str, target: Callable[..., Any] | Group, words: Sequence[str]) -> int:
    if not isinstance(target, Group):
        return Command(name, target).call(words)
    if words and words[0] in target.commands:
        return _run(f"{name} {words[0]}", target.function(words[0]), words[1:])
    if words and words[0] not in HELP:
        if words[0].startswith("-"):
            raise usage_error(msg("No such option: {name}", words[0].partition("=")[0]), name)
        raise _no_such_command(words[0], target.commands, name)
    # of each command the first paragraph of its description
    helps = ((target.function(part).__doc__ or "").partition("\n\n")[0] for part in target.commands)
    rows = [(part, translated(" ".join(text.split()))) for part, text in zip(target.commands, helps, strict=True)]
    options = [(HELP_ROW[0], translated(HELP_ROW[1]))]
    page = help_page(f"{name} [OPTIONS] COMMAND [ARGS]...", target.help, {"Options": options, "Commands": rows})
    print(page, end="")
    return 0


def _versions() -> str:
    """Return the versions of dikkat, Python and PyTorch; nothing is loaded for it."""
    from importlib.metadata import PackageNotFoundError, version

    torch = translated("torch not installed")
    with suppress(PackageNotFoundError):
        torch = f"torch {version('torch')}"
    own = NAME if toolkits() else f"{NAME}-runtime"
    return f"{own} {__version__} (Python {sys.version.split()[0]}, {torch})"
