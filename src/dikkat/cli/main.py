"""The command `dikkat`: its sub-commands, and one line with an exit code for whatever goes wrong."""

from __future__ import annotations

import os
import sys
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
from dikkat.cli.library_warnings import hide_library_warnings
from dikkat.cli.quickstart import quickstart
from dikkat.cli.report import report
from dikkat.cli.signals import Interrupted, StopSignal
from dikkat.cli.train import train
from dikkat.cli.translate import translate
from dikkat.errors import DikkatError
from dikkat.native.environment import set_environment

app = typer.Typer(
    name="dikkat",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""
    if debug:
        os.environ["DIKKAT_DEBUG"] = "1"


def main() -> None:
    """Run the command line and leave with its exit code; what does not ask for a signal is interrupted by it."""
    StopSignal()
    hide_library_warnings()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; everything that goes wrong by the user's doing is one line on standard error."""
    set_environment()
    try:
        result = app(arguments, prog_name="dikkat", standalone_mode=False)
    except DikkatError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # the reader of our output has gone; nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Interrupted as interrupt:
        return _fail("interrupted", interrupt.exit_code)
    except Exception as error:
        if hasattr(error, "format_message"):
            return _fail(_usage(error), 2)
        raise
    return result if isinstance(result, int) else 0


def _usage(error: Exception) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dikkat"
    return f"{' '.join(message.split())} Try `{command} --help`."


def _fail(message: str, exit_code: int) -> int:
    if os.environ.get("DIKKAT_DEBUG") and sys.exc_info()[0]:
        sys.excepthook(*sys.exc_info())
    print(f"dikkat: {message}", file=sys.stderr)
    return exit_code
