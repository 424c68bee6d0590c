"""AdamW (Loshchilov and Hutter 2019, algorithm 2) over vectors, with what follows from an update in the same pass."""

from __future__ import annotations

import ctypes
import math
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dikkat.native.calls import address, is_wide, native_library
from dikkat.native.kernels import runs_natively

EPSILON = 1e-9
PART = 4096
"""Numbers of one part of a sum, as in adamw.c."""


class _Update(ctypes.Structure):
    """`Update` of adamw.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("weights", "first", "second", "average", "copy", "gradient")),
        ("entries", c_int64),
        *((name, c_float) for name in ("share", "kept", "beta1", "beta2", "epsilon", "rate", "root", "fresh")),
        *((name, c_int64) for name in ("wide", "threads")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Float32 weights (N,), and what follows them wherever they go."""

    master: Tensor
    average: Tensor | None
    """Their moving average, float32, if there is one."""
    copy: Tensor | None
    """The same in the type of the matrix products, if that is another one."""

    def part(self, span: slice) -> Weights:
        average, copy = (None if each is None else each[span] for each in (self.average, self.copy))
        return Weights(self.master[span], average, copy)

    def follow(self, fresh: float) -> None:
        """After the weights have moved; the average takes a share `fresh` of them."""
        if self.average is not None:
            self.average.lerp_(self.master, fresh)
        if self.copy is not None:
            self.copy.copy_(self.master)


class Step(NamedTuple):
    """The numbers of one update."""

    update: int
    """From 1."""
    learning_rate: float
    beta1: float
    beta2: float
    weight_decay: float
    fresh: float
    """Share of the new weights in their average."""


def adamw(weights: Weights, first: Tensor, second: Tensor, gradient: Tensor, divisor: Tensor, step: Step) -> None:
    """Move the weights and both moments (N,), all in place, by `gradient` (N,) over `divisor` ().

    What follows the weights, follows. The gradient may be used up.
    """
    vectors = [each for each in (weights.master, weights.average, first, second) if each is not None]
    narrow = [each for each in (weights.copy, gradient) if each is not None and each.dtype != torch.float32]
    if runs_natively(*vectors) and all(each.dtype == torch.bfloat16 for each in narrow):
        _natively(weights, first, second, gradient, divisor, step)
    else:
        _by_torch(weights, first, second, gradient, divisor, step)


def norm(vector: Tensor) -> Tensor:
    """The root of the sum of squares of a vector (N,), float32, ()."""
    if not runs_natively(vector):
        found: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float32)
        return found
    sums = torch.empty(-(-vector.numel() // PART), dtype=torch.float64)
    call = native_library().sum_of_squares
    entries, threads = c_int64(vector.numel()), torch.get_num_threads()
    return torch.tensor(math.sqrt(call(address(vector), entries, address(sums), is_wide(vector), threads)))


def _natively(weights: Weights, first: Tensor, second: Tensor, gradient: Tensor, divisor: Tensor, step: Step) -> None:
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
        wide=is_wide(gradient),
        threads=torch.get_num_threads(),
    )
    native_library().adamw(ctypes.byref(update))


def _by_torch(weights: Weights, first: Tensor, second: Tensor, gradient: Tensor, divisor: Tensor, step: Step) -> None:
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
    weights.follow(step.fresh)
