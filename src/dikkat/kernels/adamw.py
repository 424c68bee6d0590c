"""AdamW (Loshchilov and Hutter 2019, algorithm 2) over vectors, with what follows an update in the same pass."""

import ctypes
import math
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dikkat.kernels.calls import address, is_float32, native_library, runs_native

EPSILON = 1e-9
PART = 4096
"""Numbers of one part of a sum, as in adamw.c."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Float32 weights (N,), and the vectors that follow them."""

    master: Tensor
    average: Tensor | None
    """Their exponential moving average, float32, if there is one."""
    copy: Tensor | None
    """The same weights in the type of the matrix products, if that is another one."""

    def update_ema(self, fresh: float) -> None:
        """Move the average by a share `fresh` towards the weights, and round them into the copy."""
        if self.average is not None:
            self.average.lerp_(self.master, fresh)
        if self.copy is not None:
            self.copy.copy_(self.master)


class Step(NamedTuple):
    """The numbers of one update."""

    update: int
    """Number of the update, from 1."""
    learning_rate: float
    beta1: float
    beta2: float
    weight_decay: float
    fresh: float
    """Share of the new weights in their average."""


class _Update(ctypes.Structure):
    """`Update` of adamw.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("weights", "first", "second", "average", "copy", "gradient")),
        ("entries", c_int64),
        *((name, c_float) for name in ("share", "kept", "beta1", "beta2", "epsilon", "rate", "root", "fresh")),
        *((name, c_int64) for name in ("is_float32", "threads")),
    )


def adamw(weights: Weights, first: Tensor, second: Tensor, gradient: Tensor, divisor: Tensor, step: Step) -> None:
    """Update the weights and both moments (N,) in place, by `gradient` (N,) over `divisor` ().

    Average and copy follow the weights. The gradient is float32 or bfloat16, and may be used up.
    """
    types = {vector.dtype for vector in (weights.copy, gradient) if vector is not None}
    if types - {torch.float32, torch.bfloat16} or not runs_native(weights.master, weights.average, first, second):
        torch._fused_adamw_(
            [weights.master],
            [gradient.float()],
            [first],
            [second],
            [],
            [torch.full_like(divisor, step.update)],
            lr=step.learning_rate,
            beta1=step.beta1,
            beta2=step.beta2,
            weight_decay=step.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
            grad_scale=divisor,
        )
        weights.update_ema(step.fresh)
        return
    update = _Update(
        *map(address, (weights.master, first, second, weights.average, weights.copy, gradient)),
        entries=weights.master.numel(),
        share=1.0 / float(divisor),
        kept=1.0 - step.learning_rate * step.weight_decay,
        beta1=step.beta1,
        beta2=step.beta2,
        epsilon=EPSILON,
        rate=step.learning_rate / (1.0 - step.beta1**step.update),
        root=math.sqrt(1.0 - step.beta2**step.update),
        fresh=step.fresh,
        is_float32=is_float32(gradient),
        threads=torch.get_num_threads(),
    )
    native_library().adamw(ctypes.byref(update))


def norm(vector: Tensor) -> Tensor:
    """Compute the root of the sum of squares of a vector (N,), float32, ()."""
    if not runs_native(vector):
        length: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float32)
        return length
    sums = torch.empty(-(-vector.numel() // PART), dtype=torch.float64)
    call, threads = native_library().sum_of_squares, torch.get_num_threads()
    return torch.tensor(math.sqrt(call(address(vector), vector.numel(), address(sums), is_float32(vector), threads)))
