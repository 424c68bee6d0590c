"""Compare convolution, recurrence and self-attention in all parts."""

import itertools
import time
from collections.abc import Callable

import torch

from dikkat.kernels.processor import processor_name
from dikkat.lessons.comparison.explanation import Comparison, Machine
from dikkat.lessons.comparison.layers import KINDS, ComparisonSettings, Kind, Reach, costs, reach, receptive_field
from dikkat.lessons.comparison.measurement import ROUNDS, sweep
from dikkat_runtime.errors import msg

REACH_LENGTH = 64


def compare(settings: ComparisonSettings, watch: Callable[[int, int, str], None]) -> Comparison:
    """Count operations, measure times and follow gradients.

    `watch` receives, before each part of the work, how many are done, how many there are, and the name of the next.
    """
    started = time.perf_counter()
    pieces, numbers = ROUNDS * len(KINDS) * len(settings.lengths) + 1, itertools.count()

    def counter(what: str) -> None:
        watch(next(numbers), pieces, what)

    width, kernel, seed = settings.width, settings.kernel, settings.seed
    over_length = sweep(settings.lengths, width, kernel=kernel, seed=seed, watch=counter)
    counter(msg("following gradients"))
    field = receptive_field(settings.layers, kernel)
    stacks = sorted({1, settings.layers})
    reaches = tuple(_reach(settings, kind, layers, REACH_LENGTH) for layers in stacks for kind in KINDS)
    joined, missed = (_reach(settings, "convolution", settings.layers, length) for length in (field, field + 1))
    return Comparison(
        settings,
        Machine(processor_name(), torch.get_num_threads(), torch.__version__),
        tuple(cost for n in settings.lengths for cost in costs(n, width, kernel=kernel).values()),
        over_length,
        reaches,
        joined,
        missed,
        time.perf_counter() - started,
    )


def _reach(settings: ComparisonSettings, kind: Kind, layers: int, length: int) -> Reach:
    return reach(kind, layers, length, settings.width, kernel=settings.kernel, seed=settings.seed)
