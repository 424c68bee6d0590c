"""Tables of computed positions that grow with the longest sequence seen, and outlive the call that made them grow."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def with_length(table: Tensor, axis: int, length: int, compute: Callable[[int], Tensor]) -> Tensor:
    """Return `table` where it has `length` positions along `axis`, else one of twice as many, made by `compute`.

    The new table has the device and type of the old one. It is computed outside inference mode: a tensor made inside
    could never be saved for a backward pass, and a text of a new length in validation would end the training.
    """
    if length <= table.shape[axis]:
        return table
    with torch.inference_mode(False):
        return compute(2 * length).to(device=table.device, dtype=table.dtype)
