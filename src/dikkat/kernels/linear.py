"""Linear layers: exact or in eight bits, and in either form by the kernel that is there."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels import batch_invariant
from dikkat.kernels.gpu import linear as gpu
from dikkat.kernels.int8_linear import int8_linear
from dikkat.kernels.small_linear import is_small, small_linear

Products = Literal["exact", "int8"]
"""How matrix products are computed: in the type of their factors, or of factors rounded to eight bits."""


def linear(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"] | None = None,
    *,
    rows: slice | None = None,
    relu: bool = False,
    products: Products = "exact",
) -> Float[Tensor, "*rows R"]:
    """Compute `x weight^T + bias`, and with `relu` its ReLU; `rows` takes these rows of weight and bias alone.

    An exact product of one position, as in a step of decoding, is the fastest there is; a longer sequence is rounded
    alike whatever its length, see `batch_invariant`.
    """
    if products == "int8":
        return int8_linear(x, weight, bias, rows=rows, relu=relu)
    if bias is not None and gpu.takes(x, weight, bias):
        return gpu.trained_linear(x, weight, bias, rows=rows, relu=relu)
    if rows is not None:
        weight, bias = weight[rows], None if bias is None else bias[rows]
    if is_small(x, weight, bias):
        return small_linear(x, weight, bias, relu=relu)
    output = batch_invariant.linear(x, weight, bias)
    return F.relu(output) if relu else output
