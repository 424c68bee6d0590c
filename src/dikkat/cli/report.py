"""`dikkat report`: write a finished run as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat_runtime.localization import language
from dikkat_runtime.messages import msg


def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of a finished run.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="File to write; report.html in DIR if absent.")] = None,
) -> None:
    """Write one offline HTML file: data and its faults, curves, scores, worst mistakes, attention, the model."""
    target = run / "report.html" if out is None else out
    with Announced(msg("{run}: working through what it has held out, and writing {target}").fill(run, target)):
        from dikkat.tasks.inspection.report import write_report

        write_report(run, target, language())
    print(msg("wrote {out}: open it in a browser").fill(target), file=sys.stderr)
