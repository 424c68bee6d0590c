"""Linear layers and norms in bfloat16, as PyTorch computes them where a processor multiplies bfloat16 in tiles.

What the native kernels do in eight bits is done so where there are none: PyTorch's own products of bytes leave rounding
and scaling to ten operators, and oneDNN's products of bfloat16, with weights that it has packed, add bias, activation
and residual in one.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import BFloat16
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.layers import LinearWeights, NormWeights
from dikkat_runtime.native.cpu import processor_flags

BLOCK = 512
"""Rows of a long product: oneDNN compiles one for each number of rows, which takes longer than multiplying them."""

Activation = Literal["none", "relu", "gelu"]


def has_tiles() -> bool:
    """Whether PyTorch has fast products of bfloat16 here, with weights that are packed beforehand."""
    return "amx_bf16" in processor_flags() and torch._C._has_mkldnn


class PackedLinear:
    """`activation(x weight^T + bias)`."""

    def __init__(self, weights: LinearWeights, activation: Activation = "none") -> None:
        """Raises `ValueError` for what is no number."""
        if not bool(weights.weight.isfinite().all()):
            raise ValueError("weights that are not finite cannot be packed")
        weight = weights.weight.to(torch.bfloat16).contiguous()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, BLOCK)
        self._bias = _halved(weights.bias)
        # the only form of GELU that it may be is the exact one
        self._attributes: tuple[str, list[float], str] = activation, [], "none" if activation == "gelu" else ""

    def __call__(self, x: BFloat16[Tensor, "N D"]) -> BFloat16[Tensor, "N E"]:
        """Of dense rows."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, *self._attributes)
        return found

    def added_to(self, rest: BFloat16[Tensor, "N E"], x: BFloat16[Tensor, "N D"]) -> BFloat16[Tensor, "N E"]:
        """`rest + x weight^T + bias`, which must not have an activation."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, rest, self._weight, self._bias, "add")
        return found


def whole_blocks(x: BFloat16[Tensor, "N D"]) -> tuple[Tensor, ...]:
    """`BLOCK` rows each, zeros behind the last of `x`."""
    # (N, D) -> (blocks, BLOCK, D)
    return F.pad(x, (0, 0, 0, -len(x) % BLOCK)).view(-1, BLOCK, x.shape[1]).unbind(0)


class HalfNorm:
    """Layer norm of bfloat16, or nothing."""

    def __init__(self, weights: NormWeights | None) -> None:
        self._weights = weights and NormWeights(_halved(weights.weight), _halved(weights.bias), weights.eps)

    def __call__(self, x: BFloat16[Tensor, "N D"]) -> BFloat16[Tensor, "N D"]:
        if self._weights is None:
            return x
        return F.layer_norm(x, x.shape[-1:], self._weights.weight, self._weights.bias, self._weights.eps)


class SubLayers:
    """The residual stream of rows (N, D): each sub-layer reads what the norm before it gives.

    Pre-norm (Xiong et al. 2020) or `post_norm` (Vaswani et al. 2017): `norms` holds what precedes the first linear
    layer, then what follows each sub-layer.
    """

    def __init__(self, norms: tuple[NormWeights | None, ...], *, post_norm: bool) -> None:
        self._norms = tuple(map(HalfNorm, norms))
        self._post_norm = post_norm

    def begin(self, x: BFloat16[Tensor, "N D"]) -> tuple[Tensor, Tensor]:
        """The stream, and what the first sub-layer reads."""
        return x, self._norms[0](x)

    def after(self, number: int, sum_: BFloat16[Tensor, "N D"]) -> tuple[Tensor, Tensor]:
        """The same after sub-layer `number`, counted from one, that made the stream this sum."""
        normed = self._norms[number](sum_)
        return (normed if self._post_norm else sum_), normed


def _halved(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.to(torch.bfloat16)
