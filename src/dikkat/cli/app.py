"""The command `dikkat` with its sub-commands and the options before them."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from dikkat.tasks.kinds import KINDS
from dikkat_runtime.messages import msg

COMMANDS = (
    "quickstart",
    "train",
    *(command for kind in KINDS.values() for command in kind.commands),
    "translate-files",
    "evaluate",
    "embed",
    "attend",
    "page",
    "explain",
    "heads",
    "report",
    "draw",
    "compare",
    "doctor",
    "data",
    "interpolate",
    "import",
    "export",
    "serve",
)
"""In the order of the help; each stands in the module of its name, under its name."""
_NAMES_IN_PYTHON = {"import": "import_checkpoint", "translate-files": "translate_files"}
_SETTINGS: dict[str, dict[str, Any]] = {
    "serve": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
}
"""Of a command whose options are read by dikkat-runtime."""


def make_app(*names: str) -> typer.Typer:
    """The command line with the sub-commands of these names, by default with all; only their modules are imported."""
    app = typer.Typer(
        name="dikkat",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Train a Transformer from your own text on the machine you have, and see exactly what it attends to.",
    )
    for name in names or COMMANDS:
        in_python = _NAMES_IN_PYTHON.get(name, name)
        command = getattr(import_module(f"dikkat.cli.{in_python}"), in_python)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, context_settings=_SETTINGS.get(name))(command)
    app.callback()(options)
    return app


def called_command(arguments: Sequence[str]) -> list[str]:
    """The name of the sub-command that the arguments call; nothing where that takes all sub-commands to tell."""
    words = [argument for argument in arguments if argument != "--debug"]
    return words[:1] if words and words[0] in COMMANDS else []


def _show_version(is_wanted: bool) -> None:
    """Print the versions of dikkat, Python and PyTorch; nothing is loaded for it."""
    if not is_wanted:
        return
    versions = [f"{name} {_installed(name)}" for name in ("dikkat", "torch")]
    typer.echo(f"{versions[0]} (Python {platform.python_version()}, {versions[1]})")
    raise typer.Exit


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return msg("not installed")


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the versions, and exit.")
    ] = False,
    language: Annotated[
        str,
        typer.Option(help="Language of help, messages and reports, after any command too: en or tr; else by LANG."),
    ] = "",
) -> None:
    """Take the options before the command.

    `main` looks for --debug and --language itself, since it must know them before an error.
    """
