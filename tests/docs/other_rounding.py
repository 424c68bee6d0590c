"""Compute with another rounding, as another processor does: each inexact result is a unit of its last place off.

Instruction sets, libraries and numbers of threads add up in other orders and approximate functions otherwise. A page
whose numbers stay the same under `OtherRounding` prints them on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

SUMS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "sum", "mean", "cumsum", "var", "linalg_vector_norm")
FUNCTIONS = ("exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "rsqrt", "pow", "logsumexp")
WHOLE = ("_softmax", "_log_softmax", "native_layer_norm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")
INEXACT = frozenset((*SUMS, *FUNCTIONS, *WHOLE))
"""Operations whose last bits differ between processors; sums and products of single numbers, and roots, do not."""


class OtherRounding(TorchDispatchMode):
    """Moves results of inexact operations by one unit of their last place, up, down or not at all."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0] not in INEXACT:
            return result
        if func.__name__.startswith("_softmax"):
            # the weight of one entry alone is 1 in every rounding
            return torch.where(result == 1.0, result, self._moved(result, args))
        if isinstance(result, Tensor):
            return self._moved(result, args)
        return type(result)((self._moved(result[0], args), *result[1:]))

    def _moved(self, result: Tensor, inputs: Sequence[Any]) -> Tensor:
        if not result.is_floating_point() or all(map(_is_whole, inputs)):
            return result
        steps = torch.randint(-1, 2, result.shape, generator=self.generator)
        moved = result * (1.0 + torch.finfo(result.dtype).eps * steps)
        return moved.to(result.dtype)


def _is_whole(item: Any) -> bool:
    """Return whether sums and products of this input are exact: whole numbers."""
    return not isinstance(item, Tensor) or bool((item == item.round()).all())
