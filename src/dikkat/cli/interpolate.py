"""`dikkat interpolate`: average an adapted translator with the one that it began with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat.cli.training import Out
from dikkat_runtime.hints import NAME, command, piped
from dikkat_runtime.messages import msg


def interpolate(
    run: Annotated[Path, typer.Argument(help="Translator that was trained with --from.", show_default=False)],
    out: Out = ...,  # type: ignore[assignment]
    share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Of the weights after the adaptation: 0 is the base, 1 is RUN."),
    ] = 0.5,
) -> None:
    """Average the weights of an adapted translator with those that it began with.

    The lower the share, the less stays of what it has learned of its domain, and the more comes back of what it forgot.
    """
    from dikkat.run_directory import RunDirectory
    from dikkat.run_directory.writable import require_free

    RunDirectory.open(run)
    require_free(out)
    with Announced(msg("{run}: averaging its weights with those that it began with, and writing {out}").fill(run, out)):
        from dikkat.tasks.translation.interpolation import write_interpolated

        write_interpolated(run, share, out, command(*sys.argv[1:], program=NAME))
    print(
        msg("{out}: {share:g} of what {run} learned; try: {piped}").fill(out, share, run, piped("translate", out)),
        file=sys.stderr,
    )
