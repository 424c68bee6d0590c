"""`dikkat compare`: two runs side by side, or the layers that a model could be made of."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import Announced, WorkProgress, print_torch_engine
from dikkat_runtime.cli.opening import JsonOption
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_json, print_report, print_written
from dikkat_runtime.engine.options import MAX_BEAMS
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.tasks.inspection.comparison import Way

QUICK: dict[str, Any] = {
    "lengths": (128, 256, 512, 1024),
    "widths": (32, 64, 128, 256),
    "copy_lengths": (3, 4, 8, 32),
}


def compare(
    runs: Annotated[
        list[Path] | None,
        Argument("RUN", help="Two run directories, then texts in quotes; none to compare kinds of layers."),
    ] = None,
    file: Annotated[Path | None, Option(help="Texts to compare on, one a line.")] = None,
    beam: Annotated[
        str | None, Option(help="Hypotheses followed side by side, for both or for each: 5, or 1,5; 1 is greedy.")
    ] = None,
    precision: Annotated[
        str | None, Option(help="Precision of both or of each: int8, or float32,int8; float32 if absent.")
    ] = None,
    out: Annotated[Path | None, Option(help="HTML file to write, with the maps of both.")] = None,
    quick: Annotated[bool, Option("--quick", help="Without runs: smaller sizes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs on texts: words, confidence and heads; or, without runs, the kinds of layers a model is made of.

    Each head is shown with the one of the other run that looks most alike. Name one run twice to compare two ways of
    asking it. Without runs: convolution, recurrence and self-attention by cost, speed, memory, reach of gradients and a
    learned task, in less than a minute on an otherwise idle machine.
    """
    if runs:
        if quick:
            raise UsageError("--quick is for kinds of layers, without runs; leave it out")
        _compare_runs([str(item) for item in runs], file, _ways(beam, precision), out, as_json)
        return
    for name, value in (("file", file), ("beam", beam), ("precision", precision), ("out", out)):
        if value is not None:
            raise UsageError("--{name} needs two runs: dikkat compare RUN RUN", name)
    _compare_layers(QUICK if quick else {}, as_json)


def _compare_runs(items: list[str], file: Path | None, ways: tuple[Way, Way], out: Path | None, as_json: bool) -> None:
    from dikkat.explain.explanation import as_table
    from dikkat.explain.report.html import check_page
    from dikkat.tasks.inspection.comparison import compare_runs
    from dikkat_runtime.files import probe_next_to, write_errors
    from dikkat_runtime.text.text_files import read_lines

    if len(items) < 2:
        raise UsageError("a second run is missing: dikkat compare RUN RUN")
    if out is not None:
        check_page(out)
        with write_errors(out):
            probe_next_to(out)
    first, second, *texts = items
    texts += [] if file is None else read_lines(file)
    with Announced(msg("{run}: loading its model", first)), WorkProgress() as progress:
        comparison = compare_runs(first, second, texts, ways, progress)
    print_torch_engine()
    if out is not None:
        comparison.page.write(out)
        print_written(out)
    if as_json:
        print_json(comparison.numbers)
    elif out is None:
        table = as_table(comparison.explanation.mapped(localized), shutil.get_terminal_size((100, 24)).columns)
        print_report([table.removesuffix("\n")])


def _ways(beam: str | None, precision: str | None) -> tuple[Way, Way]:
    """Parse what is asked of both runs, or of each."""
    from dikkat.tasks.inspection.comparison import Way

    kinds = ("float32", "int8", "auto")
    beams = _two("beam", beam or str(Way().beam_size), [str(size) for size in range(1, MAX_BEAMS + 1)])
    precisions: Any = _two("precision", precision or kinds[0], kinds)
    first, second = (Way(int(size), kind) for size, kind in zip(beams, precisions, strict=True))
    return first, second


def _two(option: str, text: str, known: Any) -> list[str]:
    parts = text.split(",")
    if len(parts) > 2 or any(part not in known for part in parts):
        raise UsageError(
            '--{option}: "{text}" is not one of {first} to {last}, or two of them with a comma', option, text, known[0],
            known[-1],
        )  # fmt: skip
    return parts if len(parts) == 2 else parts * 2


def _compare_layers(sizes: dict[str, Any], as_json: bool) -> None:
    from dikkat.explain.explanation import as_table
    from dikkat.lessons.comparison.compare import compare
    from dikkat.lessons.comparison.explanation import numbers, render_comparison
    from dikkat.lessons.comparison.layers import ComparisonSettings

    with WorkProgress() as progress:
        comparison = compare(ComparisonSettings(**sizes), progress)
    if as_json:
        print_json(numbers(comparison))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(as_table(render_comparison(comparison).mapped(localized), width))
    sys.stdout.flush()
