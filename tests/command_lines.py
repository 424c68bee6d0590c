"""Every command of the program, by its words, and what it would say to a command line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from unittest.mock import patch

from tools.commands import all_commands

from dikkat_runtime.cli import program
from dikkat_runtime.cli.main import run
from dikkat_runtime.cli.options import HELP, Command
from dikkat_runtime.cli.program import Group, find_command, run_words, summaries
from dikkat_runtime.engine import choose as factory
from dikkat_runtime.errors import UsageError

PROGRAM_OPTIONS = {"--debug", "--version", "--language", "--install-completion", "--show-completion", *HELP}


@cache
def commands() -> dict[tuple[str, ...], Command]:
    """Each command by its words behind the name of the program."""
    return {tuple(command.name.split()[1:]): command for command in all_commands()}


def names() -> set[str]:
    """The first words of all commands."""
    return set(summaries())


def command_of(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command that these words call, and those that it is to read; None where there is none."""
    for count in (2, 1):
        if (command := commands().get(tuple(words[:count]))) is not None:
            return command, words[count:]
    return None


def is_group(name: str) -> bool:
    """Whether a command consists of commands."""
    return name in names() and isinstance(find_command(name), Group)


def complaint(words: list[str]) -> str:
    """Why the command line refuses these words, which it only reads; empty where it does not."""
    found = command_of(words)
    if found is None:
        try:
            run_words(words)
        except UsageError as error:
            return str(error)
        return ""
    command, rest = found
    try:
        command.read([word for word in rest if word not in HELP])
    except UsageError as error:
        return str(error)
    return ""


def run_without_dikkat(arguments: Sequence[str]) -> int:
    """Run the program as where `dikkat-runtime` alone is installed."""
    factory.torch_factory.cache_clear()
    with patch.object(factory, "entry_points", lambda **group: ()), patch.object(program, "toolkits", tuple):
        try:
            return run(arguments)
        finally:
            factory.torch_factory.cache_clear()
