"""Settings of a comparison: sizes, kernel, stack, cell, and the budget of the learned task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dikkat_runtime.errors import UsageError, nearest

# The three kinds of layers that join the positions of a sequence, and the cells of a recurrence.

Kind = Literal["convolution", "recurrence", "self-attention"]
Cell = Literal["gru", "rnn"]

KINDS: Final[tuple[Kind, ...]] = ("convolution", "recurrence", "self-attention")
MATRIX_PAIRS: Final[dict[Cell, int]] = {"gru": 3, "rnn": 1}
"""D x D matrices of a cell for its input, and as many for its state: reset, update and candidate in a gated unit."""


MAX_LENGTH, MAX_WIDTH, MAX_COPY, MAX_LAYERS, MAX_KERNEL_SIZE = 32_768, 4_096, 1_024, 32, 1_024
MAX_UPDATES, MAX_SEED = 1_000_000, 2**32 - 1


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Hold checked settings. Raises `UsageError` naming the setting, the limit and the value."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    """Ascending lengths; the smallest is fixed while widths vary."""
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """Ascending widths; the smallest is fixed while lengths vary, and is used everywhere else."""
    copy_lengths: tuple[int, ...] = (3, 4, 8, 16, 32, 64)
    kernel: int = 3
    layers: int = 2
    """Layers of the stack that gradients are followed through, next to one layer."""
    cell: Cell = "gru"
    updates: int = 300
    """Updates of each training."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check_sizes("lengths", self.lengths, 1, MAX_LENGTH)
        _check_sizes("widths", self.widths, 1, MAX_WIDTH)
        _check_sizes("copy_lengths", self.copy_lengths, 2, MAX_COPY)
        # a kernel of 1 joins no two positions, however many layers there are
        check_range("kernel", self.kernel, 2, MAX_KERNEL_SIZE)
        check_range("layers", self.layers, 1, MAX_LAYERS)
        check_range("updates", self.updates, 1, MAX_UPDATES)
        check_range("seed", self.seed, 0, MAX_SEED)
        if self.cell not in MATRIX_PAIRS:
            hint = nearest(self.cell, MATRIX_PAIRS)
            raise UsageError(
                'there is no cell "{cell}"{hint}; choose from {matrix_pairs}', self.cell, hint, ", ".join(MATRIX_PAIRS)
            )

    @property
    def width(self) -> int:
        """Return the width of everything but the sweep over widths."""
        return self.widths[0]


def _check_sizes(name: str, sizes: Sequence[int], least: int, most: int) -> None:
    if not sizes:
        raise UsageError("{name} must be at least one number", name)
    for size in sizes:
        check_range(name, size, least, most)
    if list(sizes) != sorted(set(sizes)):
        raise UsageError("{name} must ascend, but are {sizes}", name, ", ".join(map(str, sizes)))


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raise `UsageError` unless a setting is from `least` to `most`."""
    if not least <= value <= most:
        raise UsageError("{name} must be from {minimum:,} to {maximum:,}, not {value:,}", name, least, most, value)
