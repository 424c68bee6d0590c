"""Learned relative positions: a score for each distance, compared with the query (Shaw) or by buckets (T5)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dikkat.nn.masks import distances


class RelativeKeys(nn.Module):
    """A bias `q . a[distance]` of the scores (Shaw et al. 2018, section 3.2; the keys' half suffices by table 4).

    There is one vector a distance up to `max_distance` either way; all further ones share the outermost.

    The vectors are shared by all heads. Raises `ValueError` for heads of another width.
    """

    def __init__(self, head_dim: int, max_distance: int = 16) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.embedding = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.embedding)

    def forward(self, query: Float[Tensor, "B H T K"], source_length: int) -> Float[Tensor, "B H T S"]:
        """Compute the bias of T scaled queries, the last of `source_length` positions."""
        if query.shape[-1] != self.embedding.shape[-1]:
            raise ValueError(
                f"relative positions of head_dim = {self.embedding.shape[-1]} cannot be compared with queries of width "
                f"{query.shape[-1]}"
            )
        away = distances(query.shape[-2], source_length, device=query.device)
        rows = away.clamp(-self.max_distance, self.max_distance) + self.max_distance
        # (B, H, T, K) x (K, 2m+1) -> (B, H, T, 2m+1) -> (B, H, T, S)
        return (query @ self.embedding.to(query.dtype).T).gather(-1, rows.expand(*query.shape[:-1], -1))


def distance_buckets(
    away: Int[Tensor, "T S"], num_buckets: int, max_distance: int, bidirectional: bool
) -> Int[Tensor, "T S"]:
    """Return buckets of distances: one for each small one, larger steps logarithmically up to `max_distance`.

    Raffel et al. (2020, section 2.1). With `bidirectional` half of the buckets are for keys after the query; without,
    these share bucket 0.
    """
    buckets = num_buckets // 2 if bidirectional else num_buckets
    later = torch.where(away > 0, buckets, 0) if bidirectional else torch.zeros_like(away)
    size = away.abs() if bidirectional else (-away).clamp_min(0)
    exact = buckets // 2
    # in float64: a power of the step must not fall into the bucket below
    steps = torch.log(size.clamp_min(exact).double() / exact) / math.log(max_distance / exact) * (buckets - exact)
    far = (exact + (steps + 1e-9).long()).clamp_max(buckets - 1)
    return later + torch.where(size < exact, size, far)


class BucketBias(nn.Module):
    """A bias of one learned number for each head and bucket of distances, added to the scores (Raffel et al. 2020).

    Each layer has a table of its own, where T5 shares one. Raises `ValueError` for fewer than 4 buckets and a
    `max_distance` that leaves none for far keys.
    """

    def __init__(
        self, num_heads: int, *, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        if num_buckets < 4 or num_buckets % 2:
            raise ValueError(f"num_buckets must be even and at least 4, not {num_buckets}")
        if max_distance <= num_buckets // 2:
            raise ValueError(f"max_distance must be above num_buckets / 2 = {num_buckets // 2}, not {max_distance}")
        self.bidirectional, self.num_buckets, self.max_distance = bidirectional, num_buckets, max_distance
        self.embedding = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.embedding, std=0.02)

    def forward(self, query: Float[Tensor, "B H T K"], source_length: int) -> Float[Tensor, "H T S"]:
        """Compute the bias of T queries, the last of `source_length` positions."""
        away = distances(query.shape[-2], source_length, device=query.device)
        buckets = distance_buckets(away, self.num_buckets, self.max_distance, self.bidirectional)
        # (T, S, H) -> (H, T, S)
        return self.embedding[buckets].permute(2, 0, 1)


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slopes 2^(-8/H), 2^(-16/H), ...; where H is not a power of two, the missing ones lie between."""
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * head / power) for head in range(1, power + 1)]
    between = [2.0 ** (-4.0 * head / power) for head in range(1, 2 * (num_heads - power), 2)]
    return slopes + between


class AlibiBias(nn.Module):
    """A bias of `-slope * |distance|` for each head, added to the scaled scores (Press et al. 2022, section 3).

    Without the causal mask it is the symmetric form.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(num_heads)), persistent=False)

    def forward(self, query: Float[Tensor, "B H T K"], source_length: int) -> Float[Tensor, "H T S"]:
        """Compute the bias of T queries, the last of `source_length` positions."""
        return -self.slopes[:, None, None] * distances(query.shape[-2], source_length, device=query.device).abs()
