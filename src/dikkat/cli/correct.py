"""`dikkat correct`: what a person has corrected comes back as corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.streams import print_report
from dikkat_runtime.errors import UsageError


def correct(
    run: Annotated[Path, typer.Argument(help="Run directory of a translator.", show_default=False)],
    source: Annotated[str | None, typer.Argument(help="A source text, on one line.")] = None,
    target: Annotated[str | None, typer.Argument(help="Its right translation.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show all corrections: source, tab, translation.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Forget the correction of SOURCE.")] = False,
) -> None:
    """Keep TARGET as the translation of SOURCE: wherever it comes again, translate and serve give TARGET.

    `dikkat translate --no-corrections` leaves corrections aside.
    """
    from dikkat_runtime.engine.run_directory import read_config
    from dikkat_runtime.tasks.corrections import Corrections

    read_config(run, "translator")
    corrections = Corrections(run)
    if list_:
        if source is not None or remove:
            raise UsageError("--list shows all corrections; leave out the texts and --remove")
        print_report(f"{ours}\t{theirs}" for ours, theirs in corrections.pairs())
    elif remove:
        if source is None or target is not None:
            raise UsageError("--remove needs the SOURCE of the correction, and no more")
        corrections.remove(source)
    elif source is None or target is None:
        raise UsageError("name the SOURCE and its right translation, or --list")
    else:
        corrections.add(source, target)
