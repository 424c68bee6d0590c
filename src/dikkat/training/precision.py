"""How the matrix products of an update are computed."""

from __future__ import annotations

from typing import NamedTuple

import torch

from dikkat.config import TrainingConfig
from dikkat.native.library import library
from dikkat.native.processor import has_fast_bfloat16, has_fast_int8


class Precision(NamedTuple):
    """Types of an update; the optimizer keeps its weights in float32 whatever they are."""

    dtype: torch.dtype = torch.float32
    """Of the weights that are computed with, of activations and of gradients."""
    eight_bit: bool = False
    """Whether linear layers round their factors to eight bits; see `nn.eight_bit`."""

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"int8 and {dtype}" if self.eight_bit else dtype


def precision_of(config: TrainingConfig) -> Precision:
    """As configured; auto takes what the processor multiplies fastest in hardware."""
    fast = torch.bfloat16 if has_fast_bfloat16() else torch.float32
    if config.precision == "auto":
        return Precision(fast, has_fast_int8() and library() is not None)
    if config.precision == "int8":
        return Precision(fast, eight_bit=True)
    return Precision(torch.bfloat16 if config.precision == "bfloat16" else torch.float32)
