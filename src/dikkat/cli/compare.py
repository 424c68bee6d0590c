"""`dikkat compare`: convolution, recurrence and self-attention side by side, on paper and on this machine."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import WorkProgress
from dikkat_runtime.cli.opening import JsonOption
from dikkat_runtime.cli.options import Option
from dikkat_runtime.cli.streams import print_json
from dikkat_runtime.errors import UsageError
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
    widths: Annotated[
        str | None, Option(help="Widths to measure: 64,128. The smallest is used for everything else.")
    ] = None,
    copy_lengths: Annotated[
        str | None, Option(help="Lengths at which the first token is to be copied: 4,16,64.")
    ] = None,
    kernel: Annotated[int, Option(help="Positions that one convolution joins.")] = 3,
    layers: Annotated[int, Option(help="Layers of the stack through which gradients are followed.")] = 2,
    cell: Annotated[str, Option(help="Of the recurrence: gru or rnn.")] = "gru",
    updates: Annotated[int, Option(help="Updates of each training.")] = 300,
    seed: Annotated[int, Option(help="Random seed of weights and sequences.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Smaller sizes where none are given.")] = False,
    as_json: JsonOption = False,
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
    _run(settings, as_json)


def parse_sizes(name: str, text: str) -> tuple[int, ...]:
    """Parse `256,512` as ascending numbers. Raises `UsageError` for anything else."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        option = name.replace("_", "-")
        raise UsageError(
            '--{option} must be whole numbers joined by commas, as in 256,512, not "{text}"', option, text
        ) from None


def _run(settings: "ComparisonSettings", as_json: bool) -> None:
    from dikkat.explain.explanation import as_table
    from dikkat.lessons.comparison.compare import compare
    from dikkat.lessons.comparison.explanation import numbers, render_comparison

    with WorkProgress() as progress:
        comparison = compare(settings, progress)
    if as_json:
        print_json(numbers(comparison))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(as_table(render_comparison(comparison).mapped(localized), width))
    sys.stdout.flush()
