"""Residual wrappers: the order of residual sum, dropout and norm."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from dikkat.nn.dropout import Dropout
from dikkat.nn.norms import named_norm

SubLayer = Callable[[Tensor], Tensor]


class _Residual(nn.Module):
    def __init__(self, model_dim: int, dropout: float = 0.0, eps: float = 1e-5, norm: str = "layer") -> None:
        super().__init__()
        # over the last dimension only: a norm over positions would leak padding and future (fault F34)
        self.norm = named_norm(norm, model_dim, eps)
        self.dropout = Dropout(dropout)

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape != y.shape:
            raise ValueError(
                f"a residual sum needs equal shapes, but the input is {tuple(x.shape)} and the output {tuple(y.shape)}"
            )
        return self.dropout.add_to(x, y)


class PostNormResidual(_Residual):
    """`norm(x + dropout(sub_layer(x)))`: the order of the paper (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        return self.norm(self._add(x, sub_layer(x)))


class PreNormResidual(_Residual):
    """`x + dropout(sub_layer(norm(x)))` (Xiong et al. 2020); the stack ends in a norm of its own."""

    def forward(self, x: Float[Tensor, "*B T D"], sub_layer: SubLayer) -> Float[Tensor, "*B T D"]:
        return self._add(x, sub_layer(self.norm(x)))


def residual(
    placement: str, model_dim: int, dropout: float, eps: float, norm: str = "layer"
) -> PostNormResidual | PreNormResidual:
    """The residual wrapper of a `norm_placement`, "pre" or "post", around the norm "layer" or "rms"."""
    if placement == "post":
        return PostNormResidual(model_dim, dropout, eps, norm)
    if placement == "pre":
        return PreNormResidual(model_dim, dropout, eps, norm)
    raise ValueError(f'norm placement must be "pre" or "post", not {placement!r}')
