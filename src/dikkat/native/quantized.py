"""Weights of linear layers in eight bits, laid out as the native kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PANEL, QUAD, LANES = 64, 4, 16
"""Outputs of a panel, inputs side by side in it, entries that rows are padded to, as in quantized.h."""
SHIFT = 128
LARGEST = 127


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeights:
    """Eight-bit integers with one scale for each output: the weight is about integer x scale (its largest is 127)."""

    weight: Tensor
    """int8, (outputs / 64, inputs / 4, 64, 4), zeros where there are none."""
    scale: Tensor
    """float32, (outputs), in whole panels."""
    shift: Tensor
    """int32, (outputs), in whole panels: the sum of the integers of an output, times 128."""


def pack(weight: Tensor) -> PackedWeights:
    """Of (outputs, inputs) in float32. Raises `ValueError` for weights that are no numbers."""
    if not bool(weight.isfinite().all()):
        raise ValueError("weights that are not finite cannot be kept in eight bits")
    outputs, inputs = weight.shape
    weight = F.pad(weight.detach(), (0, -inputs % LANES, 0, -outputs % PANEL))
    scale = weight.abs().amax(dim=1) / LARGEST
    integers = (weight / scale.clamp_min(torch.finfo(scale.dtype).tiny)[:, None]).round().to(torch.int8)
    # (outputs, inputs) -> (panels, 64, quads, 4) -> (panels, quads, 64, 4)
    panels = integers.reshape(-1, PANEL, integers.shape[1] // QUAD, QUAD).transpose(1, 2).contiguous()
    return PackedWeights(panels, scale, SHIFT * integers.sum(dim=1, dtype=torch.int32))
