"""The command `dikkat` with its sub-commands and the options before them."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Annotated

import typer

from dikkat.cli.attend import attend
from dikkat.cli.classify import classify
from dikkat.cli.compare import compare
from dikkat.cli.data import data
from dikkat.cli.doctor import doctor
from dikkat.cli.draw import draw
from dikkat.cli.embed import embed
from dikkat.cli.evaluate import evaluate
from dikkat.cli.explain import explain
from dikkat.cli.generate import generate
from dikkat.cli.heads import heads
from dikkat.cli.import_checkpoint import import_checkpoint
from dikkat.cli.quickstart import quickstart
from dikkat.cli.report import report
from dikkat.cli.serve import serve
from dikkat.cli.train import train
from dikkat.cli.translate import translate

app = typer.Typer(
    name="dikkat",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train a Transformer from your own text on the machine you have, and see exactly what it attends to.",
)
app.command()(quickstart)
app.add_typer(train, name="train")
app.command()(translate)
app.command()(classify)
app.command()(generate)
app.command()(evaluate)
app.command()(embed)
app.command()(attend)
app.command()(explain)
app.command()(heads)
app.command()(report)
app.add_typer(draw, name="draw")
app.command()(compare)
app.command()(doctor)
app.add_typer(data, name="data")
app.command("import")(import_checkpoint)
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app.command(context_settings=_PASSED_ON)(serve)


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
        return "not installed"


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the versions, and exit.")
    ] = False,
) -> None:
    """Take the options before the command; `main` looks for --debug itself, since it must know before an error."""
