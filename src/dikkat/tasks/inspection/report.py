"""Write the report of a finished run as one HTML file."""

from __future__ import annotations

from pathlib import Path

from dikkat.explain.report.html import check_page
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.kinds import kind_name, load_part
from dikkat_runtime.errors import MissingInputError, msg
from dikkat_runtime.files import probe_beside, write_atomically, write_errors
from dikkat_runtime.hints import command
from dikkat_runtime.localization import spoken_in


def write_report(path: Path, out: Path, language: str = "en") -> None:
    """Run the finished model at `path` on its held-out part, and write its report to `out` as HTML.

    Raises `UsageError` for another suffix or language, `MissingInputError` for a run that is unfinished or has lost a
    file, `DataError` for one that is damaged, `DiskError` or `CannotCreateError` when `out` cannot be written.
    """
    check_page(out)
    spoken_in(language)
    run = RunDirectory.open(path)
    metrics = run.read_metrics()
    if not run.is_finished or not metrics:
        finishing = command("train", kind_name(run), "--out", path, "--resume")
        raise MissingInputError("{path}: holds an unfinished run; finish it with: {command}", path, finishing)
    page = load_part(run, "report", msg("of which there is no report"))
    data_source(run.read_config(), run.config)
    with write_errors(out):
        probe_beside(out)
    write_atomically(out, page(run, metrics, language).encode("utf-8", "replace"))
