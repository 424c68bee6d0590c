"""`dikkat report`: write a finished run as one HTML file."""

from pathlib import Path
from typing import Annotated

from dikkat.cli.progress import Announced
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import language


def report(
    run: Annotated[Path, Argument("DIR", help="Run directory of a finished run.")],
    out: Annotated[Path | None, Option(help="File to write; report.html in DIR if absent.")] = None,
) -> None:
    """Write one offline HTML file: data and its faults, curves, scores, worst mistakes, attention, the model."""
    target = run / "report.html" if out is None else out
    with Announced(msg("{run}: working through what it has held out, and writing {target}", run, target)):
        from dikkat.tasks.inspection.report import write_report

        write_report(run, target, language())
    print_note("wrote {out}: open it in a browser", target)
