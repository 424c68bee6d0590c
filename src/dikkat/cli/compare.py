"""`dikkat compare`: convolution, recurrence and self-attention side by side, on paper and on this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import WorkProgress
from dikkat_runtime.cli.options import TYPED, Option
from dikkat_runtime.cli.streams import print_written
from dikkat_runtime.errors import CannotCreateError, UsageError, msg
from dikkat_runtime.files import temporary_beside, write_atomically, write_errors, write_new
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.lessons.comparison.layers import ComparisonSettings

QUICK: dict[str, Any] = {
    "lengths": (128, 256, 512, 1024),
    "widths": (32, 64, 128, 256),
    "copy_lengths": (3, 4, 8, 32),
}


OF_LAYERS = ("lengths", "widths", "copy_lengths", "kernel", "layers", "picture")
"""Options of the comparison of layers alone."""


def compare(
    lengths: Annotated[str | None, Option(help="Sequence lengths to measure: 256,512,1024.")] = None,
    widths: Annotated[str | None, Option(help="Widths to measure: 64,128. The smallest is that of all else.")] = None,
    copy_lengths: Annotated[
        str | None, Option(help="Lengths at which the first token is to be copied: 4,16,64.")
    ] = None,
    kernel: Annotated[int, Option(help="Positions that one convolution joins.")] = 3,
    layers: Annotated[int, Option(help="Layers of the stack through which gradients are followed.")] = 2,
    cell: Annotated[str, Option(help="Of the recurrence: gru or rnn; with --translate gru or lstm.")] = "gru",
    updates: Annotated[
        int | None, Option(help="Updates of each training: 300, or with --translate 1500 at most.")
    ] = None,
    translate: Annotated[
        list[str] | None,
        Option(
            help="Instead, train a Transformer and a recurrent translator of equal size on these pairs (twice "
            "for two files), as phrasebook:fr, and report the time to equal chrF."
        ),
    ] = None,
    chrf: Annotated[float, Option(min=1.0, max=100.0, help="With --translate: where a training ends.")] = 95.0,
    seed: Annotated[int, Option(help="Of weights and sequences.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Smaller sizes where none are given.")] = False,
    json: Annotated[Path | None, Option(help="Also write every number into this file.")] = None,
    picture: Annotated[Path | None, Option(help="Also draw this .png or .svg.")] = None,
    typed: Annotated[frozenset[str], TYPED] = frozenset(),
) -> None:
    """Compare convolution, recurrence and self-attention: cost, speed, memory, reach of gradients, and a learned task.

    Takes less than a minute on an otherwise idle machine, a third of that with --quick. With --translate, a Transformer
    and a recurrent translator with attention learn the same pairs, which takes some minutes.
    """
    from dikkat.lessons.comparison.layers import ComparisonSettings

    planned: dict[str, Any] = {} if updates is None else {"updates": updates}
    if translate:
        _refuse(typed, OF_LAYERS, msg("compares layers, not the translators of --translate"))
        smaller = {"pairs": 4000, "held_out": 60} if quick else {}
        _compare_translators(translate, {"cell": cell, "enough": chrf, "seed": seed, **planned, **smaller}, json)
        return
    _refuse(typed, ("chrf",), msg("is for --translate"))
    sizes = {"lengths": lengths, "widths": widths, "copy_lengths": copy_lengths}
    chosen = {name: parse_sizes(name, text) for name, text in sizes.items() if text is not None}
    settings = ComparisonSettings(
        kernel=kernel, layers=layers, cell=cell, seed=seed,  # type: ignore[arg-type]
        **{**(QUICK if quick else {}), **planned, **chosen},
    )  # fmt: skip
    _check_outputs(json, picture)
    _run(settings, json, picture)


def _refuse(typed: Collection[str], names: Iterable[str], reason: str) -> None:
    """Raise `UsageError` for the first option of `names` that was typed."""
    for name in names:
        if name in typed:
            raise UsageError("--{name} {reason}; leave it out", name.replace("_", "-"), reason)


def _compare_translators(data: list[str], choices: dict[str, Any], json: Path | None) -> None:
    from dikkat.explain.explanation import as_table
    from dikkat.lessons.comparison.translation_race import RaceSettings, race, render_race

    settings = RaceSettings(tuple(data), **choices)
    _check_outputs(json, None)
    with WorkProgress() as progress:
        result = race(settings, progress)
    explanation = render_race(result).mapped(localized)
    sys.stdout.write(as_table(explanation, shutil.get_terminal_size((100, 24)).columns))
    sys.stdout.flush()
    if json is not None:
        write_atomically(json, (dumps(result.as_dict(), indent=2) + "\n").encode())
    print_written(json)


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
            trial = temporary_beside(path)
            try:
                write_new(trial, b"")
            finally:
                trial.unlink(missing_ok=True)


def _run(settings: ComparisonSettings, json: Path | None, picture: Path | None) -> None:
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
