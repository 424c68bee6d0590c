"""How the matrix products of an update are computed."""

from __future__ import annotations

from typing import NamedTuple

import torch

from dikkat.config import TrainingConfig
from dikkat.errors import UsageError
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


PROCESSOR = torch.device("cpu")


def precision_of(config: TrainingConfig, device: torch.device = PROCESSOR) -> Precision:
    """As configured; auto takes what the device multiplies fastest in hardware.

    Raises `UsageError` for eight bits on a GPU.
    """
    if device.type != "cpu":
        return _on_a_gpu(config.precision)
    fast = torch.bfloat16 if has_fast_bfloat16() else torch.float32
    if config.precision == "auto":
        return Precision(fast, has_fast_int8() and library() is not None)
    if config.precision == "int8":
        return Precision(fast, eight_bit=True)
    return Precision(torch.bfloat16 if config.precision == "bfloat16" else torch.float32)


def _on_a_gpu(precision: str) -> Precision:
    if precision == "int8":
        raise UsageError("training.precision int8 is for processors; on a GPU take bfloat16")
    if precision == "auto":
        precision = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return Precision(torch.bfloat16 if precision == "bfloat16" else torch.float32)
