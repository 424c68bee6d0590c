"""`dikkat data`: work on text before anything is trained on it."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.engine_option import print_engine
from dikkat.cli.progress import WorkProgress
from dikkat.cli.streams import print_report, print_written
from dikkat.cli.synthetic import backtranslate, distil
from dikkat.cli.table_out import check_table
from dikkat_runtime.engine.options import Device, Precision

LINES_PER_UPDATE = 256
"""Lines between two updates of the progress bar."""

data = typer.Typer(no_args_is_help=True, help="Work on text before anything is trained on it.")


@data.callback()
def tasks() -> None:
    """Work on text before anything is trained on it."""


@data.command()
def diversify(
    forward: Annotated[Path, typer.Argument(help="Run of a translator of this direction.", show_default=False)],
    backward: Annotated[Path, typer.Argument(help="Run of one of the other direction.", show_default=False)],
    pairs: Annotated[list[str], typer.Argument(help="Data as for train.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Table to write (.tsv), source and target.", show_default=False)],
    source_column: Annotated[str | None, typer.Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target: number from 1, or name.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Sentences translated at once; if absent, as many as are fastest.")
    ] = None,
    precision: Annotated[Precision, typer.Option(help="int8 is faster and writes almost the same.")] = "float32",
    device: Annotated[Device, typer.Option(help="Where to compute; cuda is the first GPU.")] = "cpu",
) -> None:
    """Write PAIRS, and what two translators make of their sources and of their targets: more to learn from.

    Whoever trains on the table should name files of their own for validation and test, which neither translator has
    seen.
    """
    check_table(out, "--out")
    from dikkat.data.readers import LanguageChoice, read_pairs
    from dikkat.tasks.translation.diversify import check_directions, diversify
    from dikkat.tasks.translation.translator import Translator
    from dikkat_runtime.files import write_atomically

    there, back = (Translator.load(run, precision, device) for run in (forward, backward))
    print_engine(there.info)
    check_directions(there, back)
    languages = LanguageChoice(there.config.data.source_language, there.config.data.target_language)
    note = partial(print, file=sys.stderr)
    original = list(read_pairs(pairs, source_column, target_column, languages=languages, note=note))
    with WorkProgress() as progress:
        on_progress = _Progress(progress, 2 * len(original))
        diversified = diversify(there, back, original, batch_size=batch_size, on_progress=on_progress)
    rows = ("\t".join(text.replace("\t", " ") for text in pair) + "\n" for pair in diversified.pairs)
    write_atomically(out, "".join(rows).encode())
    summary = (
        f"{diversified.original:,} pairs, {diversified.by_forward:,} new ones by {forward},"
        f" {diversified.by_backward:,} by {backward}:"
        f" {len(diversified.pairs):,} in {out}"
    )
    print_report([summary])


data.command()(backtranslate)
data.command()(distil)


@data.command()
def check(
    pairs: Annotated[list[str], typer.Argument(metavar="FILES...", help="Data as for train.", show_default=False)],
    valid: Annotated[
        list[str] | None, typer.Option(help="Held-out data, which must not come in FILES (twice for two files).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="HTML page with examples.", show_default=False)] = None,
    fix: Annotated[
        Path | None,
        typer.Option(help="Table to write (.tsv) of the pairs without a fault; the others go beside it, with why."),
    ] = None,
    source_column: Annotated[str | None, typer.Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target: number from 1, or name.")] = None,
    source_language: Annotated[str, typer.Option(help="As en; else by tags, file names, or guessed.")] = "",
    target_language: Annotated[str, typer.Option(help="As tr; else by tags, file names, or guessed.")] = "",
) -> None:
    """Tell what is wrong with parallel text: fourteen kinds of faults, counted, with examples, and left out."""
    from dikkat.data.faults.files import CheckRequest, check_files, left_out_path, write_cleaned
    from dikkat.explain.report.data_page import data_page, data_report
    from dikkat.explain.report.html import check_page
    from dikkat_runtime.files import write_atomically

    if out is not None:
        check_page(out)
    if fix is not None:
        check_table(fix, "--fix")
        check_table(left_out_path(fix), "--fix")
    languages = (source_language, target_language)
    request = CheckRequest(pairs, valid or (), (source_column, target_column), languages)
    result = check_files(request, note=partial(print, file=sys.stderr))
    name = " ".join(pairs)
    print_report(data_report(result))
    if out is not None:
        write_atomically(out, data_page(name, result).encode())
    if fix is not None:
        write_cleaned(request, result, fix)
    print_written(out, fix, None if fix is None else left_out_path(fix))


class _Progress:
    """Lines a second and the time that is left, on the way."""

    def __init__(self, progress: WorkProgress, lines: int) -> None:
        self._progress, self._lines, self._begun = progress, lines, time.monotonic()

    def __call__(self, done: int) -> None:
        if done % LINES_PER_UPDATE:
            return
        rate = done / max(1e-9, time.monotonic() - self._begun)
        minutes, seconds = divmod(int((self._lines - done) / rate), 60)
        self._progress(done - 1, self._lines, f"lines translated, {rate:,.0f} a second, {minutes}:{seconds:02} left")
