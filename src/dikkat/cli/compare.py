"""`dikkat compare`: convolution, recurrence and self-attention side by side, on paper and on this machine."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import WorkProgress
from dikkat_runtime.cli.options import Option
from dikkat_runtime.cli.streams import print_written
from dikkat_runtime.errors import CannotCreateError, UsageError
from dikkat_runtime.files import temporary_next_to, write_atomically, write_errors, write_new
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.lessons.comparison.layers import ComparisonSettings

QUICK: dict[str, Any] = {
    "lengths": (128, 256, 512, 1024),
    "widths": (32, 64, 128, 256),
    "copy_lengths": (3, 4, 8, 32),
}


def compare(
    lengths: Annotated[str | None, Option(help="Sequence lengths to measure: 256,512,1024.")] = None,
    widths: Annotated[str | None, Option(help="Widths to measure: 64,128. The smallest is that of all else.")] = None,
    copy_lengths: Annotated[
        str | None, Option(help="Lengths at which the first token is to be copied: 4,16,64.")
    ] = None,
    kernel: Annotated[int, Option(help="Positions that one convolution joins.")] = 3,
    layers: Annotated[int, Option(help="Layers of the stack through which gradients are followed.")] = 2,
    cell: Annotated[str, Option(help="Of the recurrence: gru or rnn.")] = "gru",
    updates: Annotated[int, Option(help="Updates of each training.")] = 300,
    seed: Annotated[int, Option(help="Of weights and sequences.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Smaller sizes where none are given.")] = False,
    json: Annotated[Path | None, Option(help="Also write every number into this file.")] = None,
    picture: Annotated[Path | None, Option(help="Also draw this .png or .svg.")] = None,
) -> None:
    """Compare convolution, recurrence and self-attention: cost, speed, memory, reach of gradients, and a learned task.

    Takes less than a minute on an otherwise idle machine, a third of that with --quick.
    """
    from dikkat.lessons.comparison.layers import ComparisonSettings

    sizes = {"lengths": lengths, "widths": widths, "copy_lengths": copy_lengths}
    chosen = {name: parse_sizes(name, text) for name, text in sizes.items() if text is not None}
    settings = ComparisonSettings(
        kernel=kernel, layers=layers, cell=cell, updates=updates, seed=seed,  # type: ignore[arg-type]
        **{**(QUICK if quick else {}), **chosen},
    )  # fmt: skip
    _check_outputs(json, picture)
    _run(settings, json, picture)


def parse_sizes(name: str, text: str) -> tuple[int, ...]:
    """Parse `256,512` as ascending numbers. Raises `UsageError` for anything else."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        option = name.replace("_", "-")
        raise UsageError(
            '--{option} must be whole numbers joined by commas, as in 256,512, not "{text}"', option, text
        ) from None


def _check_outputs(json: Path | None, picture: Path | None) -> None:
    """Before a minute of work rather than after it."""
    from dikkat.explain.pictures import check_format

    if picture is not None:
        check_format(picture)
    if json is not None and json == picture:
        raise UsageError("{json}: --json and --picture name the same file; give two names", json)
    for path in (json, picture):
        if path is None:
            continue
        if path.is_dir():
            raise CannotCreateError("{path}: is a folder, not a file; choose another name", path)
        with write_errors(path):
            trial = temporary_next_to(path)
            try:
                write_new(trial, b"")
            finally:
                trial.unlink(missing_ok=True)


def _run(settings: "ComparisonSettings", json: Path | None, picture: Path | None) -> None:
    from dikkat.explain.explanation import as_table
    from dikkat.lessons.comparison.compare import compare
    from dikkat.lessons.comparison.explanation import as_json, draw_comparison, render_comparison

    with WorkProgress() as progress:
        comparison = compare(settings, progress)
    sys.stdout.write(
        as_table(render_comparison(comparison).mapped(localized), shutil.get_terminal_size((100, 24)).columns)
    )
    sys.stdout.flush()
    if json is not None:
        write_atomically(json, as_json(comparison).encode())
    if picture is not None:
        draw_comparison(comparison, picture)
    print_written(json, picture)
