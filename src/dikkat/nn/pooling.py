"""From a sequence of vectors to one: masked pooling, in which padding has no part."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.nn.functional import attention_weights

PoolingName = Literal["mean", "first", "attention", "max"]


class MeanPooling(nn.Module):
    """Pooling by the mean of the real positions."""

    def weights(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Return the share of each position in the result: equal for the real ones, which sum to one; float32."""
        return position_weights("mean", mask)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """Pool the positions where `mask` is True."""
        return weighted_sum(self.weights(x, mask), x)


class FirstPooling(nn.Module):
    """Pooling by the first position alone, which has read all the others (Devlin et al. 2019, section 3)."""

    def weights(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Return one at the first position, zero elsewhere."""
        weights = torch.zeros_like(mask, dtype=torch.float32)
        weights[:, 0] = 1.0
        return weights

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """Pool the positions where `mask` is True."""
        return x[:, 0]


class AttentionPooling(nn.Module):
    """Pooling by a learned query over the real positions (Yang et al. 2016, section 2.2, without hidden layer)."""

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        # at zero all positions weigh the same: learning starts from the mean
        self.query = nn.Parameter(torch.zeros(model_dim))

    def weights(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Compute a softmax over the real positions, at least float32."""
        return attention_weights(x @ self.query, mask, beta=x.shape[-1] ** -0.5)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """Pool the positions where `mask` is True."""
        return weighted_sum(self.weights(x, mask), x)


class MaxPooling(nn.Module):
    """Pooling by the largest number of the real positions in each dimension (Collobert et al. 2011, section 3.3.2).

    Padding never wins. Over no positions it is zero, as every sum over nothing is here.
    """

    def weights(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Return the share of the dimensions that each position wins, the first of equals; float32."""
        winners = _lowest_where_hidden(x, mask).argmax(dim=1)
        # (B, D) -> (B, S, D) -> (B, S)
        won = winners[:, None, :] == torch.arange(x.shape[1], device=x.device)[None, :, None]
        return won.float().mean(dim=2) * mask

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """Pool the positions where `mask` is True."""
        return _lowest_where_hidden(x, mask).amax(dim=1).masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


Pooling = MeanPooling | FirstPooling | AttentionPooling | MaxPooling


def named_pooling(name: PoolingName, model_dim: int) -> Pooling:
    """Build the pooling called `name`."""
    if name == "attention":
        return AttentionPooling(model_dim)
    if name == "max":
        return MaxPooling()
    return MeanPooling() if name == "mean" else FirstPooling()


def position_weights(name: str, mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
    """Return the weight of each real position in a sum that depends on nothing else; float32.

    The sum is the "mean", one over the square root of the length ("mean_sqrt_length"), one that counts position n
    n times ("weighted_mean", Muennighoff 2022), or the "last" position.
    """
    real = mask.float()
    count, order = real.sum(dim=1, keepdim=True).clamp_min(1), real.cumsum(dim=1)
    if name == "weighted_mean":
        return real * order * 2 / (count * (count + 1))
    if name == "last":
        return real * (order == count)
    return real / (count.sqrt() if name == "mean_sqrt_length" else count)


def _lowest_where_hidden(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask[..., None], torch.finfo(x.dtype).min)


def weighted_sum(weights: Float[Tensor, "B S"], x: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
    """Sum the positions, each times its weight, in the type of `x`."""
    # (B, 1, S) x (B, S, D) -> (B, D)
    return (weights.to(x.dtype)[:, None, :] @ x)[:, 0]
