"""Normalisation over the last dimension, by name: layer norm and root-mean-square norm.

Both are PyTorch's, layer norm with a kernel for training, over features only, never over positions (fault F34).
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import RMSNorm

from dikkat.kernels.layer_norm import layer_norm

__all__ = ["LayerNorm", "RMSNorm", "named_norm"]


class LayerNorm(nn.LayerNorm):
    """Layer norm (Ba et al. 2016): `nn.LayerNorm` computed by the kernel of `dikkat.kernels.layer_norm`."""

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalise the last dimension of `x`."""
        return layer_norm(x, self.weight, self.bias, self.eps)


_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def named_norm(name: str, model_dim: int, eps: float) -> LayerNorm | RMSNorm:
    """Build the norm of a name over the last dimension.

    "layer" (Ba et al. 2016) subtracts the mean, divides by the deviation and has weight and bias; "rms" (Zhang and
    Sennrich 2019) only divides by the root of the mean square and has a weight. Raises `ValueError` for other names.
    """
    if name not in _NORMS:
        raise ValueError(f"norm must be one of {', '.join(_NORMS)}, not {name!r}")
    return _NORMS[name](model_dim, eps=eps)
