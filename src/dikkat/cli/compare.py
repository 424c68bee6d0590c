"""`dikkat compare`: two runs side by side, or the layers that a model could be made of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.page import WebPrecision
from dikkat.cli.progress import Announced, print_torch_engine
from dikkat_runtime.cli.opening import JsonOption
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.progress import WorkProgress
from dikkat_runtime.cli.streams import print_json, print_report, print_written
from dikkat_runtime.engine.options import MAX_BEAMS
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.explain.explanation import Explanation

QUICK: dict[str, Any] = {"lengths": (128, 256, 512, 1024), "width": 32}


def compare(
    runs: Annotated[
        list[Path] | None,
        Argument("RUN", help="Two run directories, then texts in quotes; none to compare kinds of layers."),
    ] = None,
    file: Annotated[Path | None, Option(help="Texts to compare on, one a line.")] = None,
    beam: Annotated[
        list[int] | None,
        Option(min=1, max=MAX_BEAMS, help="Hypotheses followed side by side, 5 if absent; twice for each run its own."),
    ] = None,
    precision: Annotated[
        list[WebPrecision] | None, Option(help="float32 if absent; given twice, that of each run.")
    ] = None,
    out: Annotated[Path | None, Option(help="HTML file to write, with the maps of both.")] = None,
    quick: Annotated[bool, Option("--quick", help="Without runs: smaller sizes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs on texts: words, confidence and heads; or, without runs, the kinds of layers a model is made of.

    Each head is shown with the one of the other run that looks most alike. Name one run twice to compare two ways of
    asking it. Without runs: convolution, recurrence and self-attention by cost, speed, memory and reach of gradients,
    in less than a minute on an otherwise idle machine.
    """
    options = {"file": file, "beam": beam or None, "precision": precision or None, "out": out}
    if not runs:
        for name, value in options.items():
            if value is not None:
                raise UsageError("--{name} is for two runs; name both", name)
        _compare_layers(QUICK if quick else {}, as_json)
        return
    if len(runs) < 2:
        raise UsageError("a second run is missing; name two, then texts")
    if quick:
        raise UsageError("--quick is for kinds of layers, without runs; leave it out")
    _compare_runs(list(map(str, runs)), file, (beam or [5], precision or ["float32"]), out, as_json)


def _compare_runs(
    items: list[str], file: Path | None, ways: tuple[list[int], list[WebPrecision]], out: Path | None, as_json: bool
) -> None:
    from dikkat.explain.pictures import PAGES, check_format
    from dikkat.tasks.inspection.comparison import Way, compare_runs
    from dikkat_runtime.files import probe_next_to, write_errors
    from dikkat_runtime.text.text_files import read_lines

    if out is not None:
        check_format(out, PAGES)
        with write_errors(out):
            probe_next_to(out)
    first, second, *texts = items
    texts += [] if file is None else read_lines(file)
    # one value is that of both
    both = (Way(ways[0][0], ways[1][0]), Way(ways[0][-1], ways[1][-1]))
    with Announced(msg("{run}: loading its model", first)):
        comparison = compare_runs(first, second, texts, both)
    print_torch_engine()
    if out is not None:
        comparison.page.write(out)
        print_written(out)
    if out is None or as_json:
        _print(comparison.explanation, comparison.numbers, as_json)


def _compare_layers(sizes: dict[str, Any], as_json: bool) -> None:
    from dikkat.lessons.comparison.compare import compare
    from dikkat.lessons.comparison.explanation import numbers, render_comparison
    from dikkat.lessons.comparison.layers import ComparisonSettings

    with WorkProgress() as progress:
        comparison = compare(ComparisonSettings(**sizes), progress)
    _print(render_comparison(comparison), numbers(comparison), as_json)


def _print(explanation: Explanation, numbers: dict[str, Any], as_json: bool) -> None:
    from dikkat.explain.explanation import as_table

    if as_json:
        print_json(numbers)
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print_report([as_table(explanation.mapped(localized), width).removesuffix("\n")])
