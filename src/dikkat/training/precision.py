"""The number types of an update."""

from typing import NamedTuple

import torch
from torch import nn

from dikkat import kernels
from dikkat.config import TrainingConfig
from dikkat.kernels.linear import MAX_WEIGHTS, Products
from dikkat.kernels.processor import has_fast_bfloat16, has_fast_int8
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.scorers import DotProductScorer
from dikkat_runtime.errors import UsageError, msg


class Precision(NamedTuple):
    """Types of an update; the optimizer keeps its weights in float32 whatever they are."""

    dtype: torch.dtype = torch.float32
    """Type of the weights that are computed with, of activations and of gradients."""
    products: Products = "exact"
    """How linear layers multiply: in that type, or with factors rounded to eight bits; see `kernels.int8_linear`."""
    validation: torch.dtype = torch.float32
    """Type of weights, activations and products in validation."""

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return msg("int8 and {dtype}", dtype) if self.products == "int8" else dtype


PROCESSOR = torch.device("cpu")


def precision_of(config: TrainingConfig, model: nn.Module, device: torch.device = PROCESSOR) -> Precision:
    """Return the configured precision; auto takes what the device multiplies fastest.

    Raises `UsageError` for eight bits on a GPU.
    """
    if device.type != "cpu":
        return _on_a_gpu(config.precision)
    fast = torch.bfloat16 if has_fast_bfloat16() else torch.float32
    is_native = kernels.active() == "native"
    if config.precision == "int8" or (config.precision == "auto" and has_fast_int8() and is_native):
        # numbers that only native code multiplies may be in bfloat16 on any processor, which halves their memory
        between = torch.bfloat16 if is_native and _has_plain_attention(model) else fast
        return Precision(between, products="int8", validation=fast)
    dtype = _named(config.precision)
    if config.precision == "auto":
        # conversions between PyTorch's operators cost small models more than their products gain
        dtype = fast if is_native or _is_large(model) else torch.float32
    return Precision(dtype, validation=dtype)


def _has_plain_attention(model: nn.Module) -> bool:
    """Tell whether all products of activations are those of plain attention, for which there is a kernel."""
    attentions = (part for part in model.modules() if isinstance(part, MultiHeadAttention))
    return all(isinstance(part.comparison, DotProductScorer) for part in attentions)


def _is_large(model: nn.Module) -> bool:
    """Tell whether any linear layer has more weights than `small_linear` takes."""
    return any(part.weight.numel() > MAX_WEIGHTS for part in model.modules() if isinstance(part, nn.Linear))


def _named(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def _on_a_gpu(precision: str) -> Precision:
    if precision == "int8":
        raise UsageError("training.precision int8 is for processors; on a GPU take bfloat16")
    if precision == "auto":
        precision = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return Precision(_named(precision), validation=_named(precision))
