"""How the matrix products of an update are computed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from dikkat.config import TrainingConfig
from dikkat.native.library import library
from dikkat.native.narrow_linear import MOST_WEIGHTS
from dikkat.native.processor import has_fast_bfloat16, has_fast_int8
from dikkat.nn.comparison import DotComparison
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.errors import UsageError


class Precision(NamedTuple):
    """Types of an update; the optimizer keeps its weights in float32 whatever they are."""

    dtype: torch.dtype = torch.float32
    """Of the weights that are computed with, of activations and of gradients."""
    eight_bit: bool = False
    """Whether linear layers round their factors to eight bits; see `nn.eight_bit`."""
    validation: torch.dtype = torch.float32
    """Of weights and activations in validation, whose products are in that type too."""

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"int8 and {dtype}" if self.eight_bit else dtype


PROCESSOR = torch.device("cpu")


def precision_of(config: TrainingConfig, model: nn.Module, device: torch.device = PROCESSOR) -> Precision:
    """As configured; auto takes what the device multiplies fastest.

    Raises `UsageError` for eight bits on a GPU.
    """
    if device.type != "cpu":
        return _on_a_gpu(config.precision)
    fast = torch.bfloat16 if has_fast_bfloat16() else torch.float32
    is_native = library() is not None
    if config.precision == "int8" or (config.precision == "auto" and has_fast_int8() and is_native):
        # numbers that only native code multiplies may be in bfloat16 on any processor, which halves their memory
        between = torch.bfloat16 if is_native and _attends_natively(model) else fast
        return Precision(between, eight_bit=True, validation=fast)
    dtype = _named(config.precision)
    if config.precision == "auto":
        # conversions between PyTorch's operators cost narrow models more than their products gain
        dtype = fast if is_native or _is_wide(model) else torch.float32
    return Precision(dtype, validation=dtype)


def _attends_natively(model: nn.Module) -> bool:
    """Whether all products of activations with each other are those of plain attention, for which there is a kernel."""
    attentions = (part for part in model.modules() if isinstance(part, MultiHeadAttention))
    return all(isinstance(part.comparison, DotComparison) for part in attentions)


def _is_wide(model: nn.Module) -> bool:
    """Whether any linear layer has more weights than those of a narrow model."""
    return any(part.weight.numel() > MOST_WEIGHTS for part in model.modules() if isinstance(part, nn.Linear))


def _named(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def _on_a_gpu(precision: str) -> Precision:
    if precision == "int8":
        raise UsageError("training.precision int8 is for processors; on a GPU take bfloat16")
    if precision == "auto":
        precision = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return Precision(_named(precision), validation=_named(precision))
